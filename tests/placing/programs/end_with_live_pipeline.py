# SPDX-License-Identifier: Apache-2.0
"""Ends while tf.data reads for iterators that nobody has closed.

Arguments: the folder of `Numbers`, and how it ends. Without care this hangs or aborts: a reader
that is in Python when the interpreter goes away never returns, and TensorFlow waits for it.
"""

import dataclasses
import faulthandler
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import tfjax_batches as tjb
from tests.made_datasets import SlowReader, with_reader

BAD_EXAMPLE = 8  # the first of step 1
LIVE: list[Iterator[Any]] = []


class DamagedReader(SlowReader):
    """Fails on one example at once, and is slow on those after it."""

    def read(self, examples: np.ndarray) -> Any:
        if examples[0] == BAD_EXAMPLE:
            raise tjb.RecordError("It is damaged.")
        return super().read(examples) if examples[0] > BAD_EXAMPLE else self._reader.read(examples)


def leave_live(loader: tjb.BatchLoader) -> None:
    """Leave a buffered, a synchronous and a host iterator in the midst of reading."""
    reading = with_reader(loader, SlowReader(loader.pipeline.readers[0], seconds=0.1))
    synchronous = dataclasses.replace(loader.config, prefetch_depth=0)
    LIVE.extend([iter(reading), iter(dataclasses.replace(reading, config=synchronous))])
    LIVE.append(reading.host_batches())
    for batches in LIVE:
        next(batches)


def fail(loader: tjb.BatchLoader) -> None:
    """Leave with an error, whose traceback goes through the pipeline."""
    for _ in iter(with_reader(loader, DamagedReader(loader.pipeline.readers[0], seconds=3))):
        pass


def main(folder: str, ending: str) -> None:
    faulthandler.dump_traceback_later(60, exit=True)
    loader = tjb.build(folder, global_batch_size=8, shuffle="none")
    if ending == "error":
        fail(loader)
    leave_live(loader)
    sys.exit(3)


if __name__ == "__main__":
    main(*sys.argv[1:])

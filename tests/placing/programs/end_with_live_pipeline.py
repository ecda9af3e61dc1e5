# SPDX-License-Identifier: Apache-2.0
"""Ends while tf.data reads for iterators that nobody has closed. Argument: folder of `Numbers`.

Without a handler at exit this hangs or aborts: a reader that is in Python when the interpreter goes
away never returns, and TensorFlow waits for it.
"""

import dataclasses
import faulthandler
import sys

import tfjax_batches as tjb
from tests.made_datasets import SlowReader


def main(folder: str) -> None:
    faulthandler.dump_traceback_later(60, exit=True)
    loader = tjb.build(folder, global_batch_size=8)
    loader = dataclasses.replace(loader, _reader=SlowReader(loader._reader, seconds=0.1))
    synchronous = dataclasses.replace(loader.config, prefetch_depth=0)
    global live
    live = [iter(loader), iter(dataclasses.replace(loader, config=synchronous))]
    live.append(loader.host_batches())
    for batches in live:
        next(batches)
    sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1])

# SPDX-License-Identifier: Apache-2.0
"""Ends while tf.data reads for iterators that nobody has closed. Argument: folder of `Numbers`.

Without a handler at exit this hangs or aborts: a reader that is in Python when the interpreter goes
away never returns, and TensorFlow waits for it.
"""

import faulthandler
import sys
import time
from typing import Any

import tfjax_batches as tjb
from tfjax_batches.reading.tfrecord import TFRecordReader

read = TFRecordReader.read


def read_slowly(self: TFRecordReader, examples: Any) -> Any:
    time.sleep(0.2)
    return read(self, examples)


def main(folder: str) -> None:
    faulthandler.dump_traceback_later(60, exit=True)
    loader = tjb.build(folder, global_batch_size=8)
    TFRecordReader.read = read_slowly  # type: ignore[method-assign]
    global live
    live = [iter(loader), iter(tjb.build(loader.config, prefetch_depth=0)), loader.host_batches()]
    for batches in live:
        next(batches)
    sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1])

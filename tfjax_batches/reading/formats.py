# SPDX-License-Identifier: Apache-2.0
"""The storage formats, and what a reader of one can do.

To add a format, write its reader in a module of its own, add it to `_READERS`, add the packages it
needs to setup.cfg, and test it.
"""

import os
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import UnsupportedError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.array_record import ArrayRecordReader
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.split import Split
from tfjax_batches.reading.tfrecord.reader import TFRecordReader


class RecordReader(Protocol):
    """Random access to the records of a split, from many threads at once.

    Each method raises RecordError where a file is missing or a record is damaged; it names file,
    record and offset.
    """

    def open(self) -> None:
        """Find the records of every file. The other methods do so too where they need it."""

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the stored bytes of some examples, int64[n] in any order, as object[n]."""

    def reads_ranges(self) -> bool:
        """Return whether each read is a request, so that few large ones are best."""

    def mean_record_bytes(self) -> float:
        """Return the mean size of a record, in bytes, at least 1."""

    def describe(self, example: int) -> str:
        """Return where an example is stored, for messages: file, record and offset."""

    def index_location(self) -> str:
        """Return where the index of the records is stored, for messages."""


class _MakeReader(Protocol):
    def __call__(self, split: Split, options: ReaderOptions) -> RecordReader: ...


# TFDS's name of a format → its reader.
_READERS: Mapping[str, _MakeReader] = {
    "tfrecord": TFRecordReader,
    "array_record": ArrayRecordReader,
}


def open_reader(split: Split, options: ReaderOptions | None = None) -> RecordReader:
    """Return the reader of a split; touches no file yet.

    Args:
        split: The records.
        options: How they are read. None: as by default.

    Raises:
        UnsupportedError: The files have a format that cannot be read by index.
    """
    if split.file_format not in _READERS:
        raise UnsupportedError(
            f"Records are read by index from files of format {' or '.join(_READERS)}; "
            f"{split.name} is stored as {split.file_format}. Convert it with "
            "`pip install apache-beam && tfds convert_format --dataset_version_dir="
            f"{os.path.dirname(split.ranges[0].path)} --out_file_format=array_record "
            "--out_dir=<new folder>`."
        )
    return _READERS[split.file_format](split, options or ReaderOptions())

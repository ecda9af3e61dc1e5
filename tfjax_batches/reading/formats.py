# SPDX-License-Identifier: Apache-2.0
"""What reads records by index, and which reader serves a split."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import UnsupportedError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.array_record import ArrayRecordReader
from tfjax_batches.reading.remote import RemoteTFRecordReader
from tfjax_batches.reading.split import FileFormat, Split
from tfjax_batches.reading.storage import is_remote
from tfjax_batches.reading.tfrecord import TFRecordReader


class RecordReader(Protocol):
    """Random access to the records of a split, from many threads at a time."""

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the stored bytes of each example, object[n].

        Raises:
            RecordError: A file is missing or damaged; names file, record and offset.
        """

    def mean_record_bytes(self) -> float:
        """Return the mean size of a record, in bytes, at least 1."""

    def describe(self, example: int) -> str:
        """Return where an example is stored, for messages: file, record and offset."""


def open_reader(source: Split, *, verify_crc: bool = True) -> RecordReader:
    """Return the reader of a split; touches no file yet.

    Args:
        source: Where the records are.
        verify_crc: Check each record's checksum. ArrayRecord checks its own in any case.

    Raises:
        UnsupportedError: ArrayRecord files that are not on this machine's file systems.
    """
    path = source.ranges[0].path
    if source.file_format is FileFormat.ARRAY_RECORD:
        if is_remote(path):
            raise UnsupportedError(
                "ArrayRecord files are read from file systems of this machine; "
                f"{path} is on another. Copy or mount the dataset, or keep it as tfrecord."
            )
        return ArrayRecordReader(source)
    if is_remote(path):
        return RemoteTFRecordReader(source, verify_crc=verify_crc)
    return TFRecordReader(source, verify_crc=verify_crc)

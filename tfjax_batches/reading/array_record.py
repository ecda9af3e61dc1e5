# SPDX-License-Identifier: Apache-2.0
"""Random access to the records of ArrayRecord files, by the format's own reader.

The files hold their own index and checksums, which that reader always checks.
"""

import os

import numpy as np
import numpy.typing as npt
from array_record.python import array_record_module

from tfjax_batches.errors import RecordError, UnsupportedError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.dataset_errors import RESTORE, unreadable_file
from tfjax_batches.reading.open_files import OpenFiles
from tfjax_batches.reading.split import Split
from tfjax_batches.reading.storage import is_remote

# What the format's documentation advises for random access.
_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"


class ArrayRecordReader:
    """Reads the records of a split by example index, one call a file. See `RecordReader`.

    Args:
        split: Where the records are.
        verify_crc: Has no effect: the format's reader always checks.

    Raises:
        UnsupportedError: The files are on a remote file system.
    """

    def __init__(self, split: Split, *, verify_crc: bool = True) -> None:
        if is_remote(path := split.ranges[0].path):
            raise UnsupportedError(
                "ArrayRecord files must be on a file system of this machine; "
                f"{path} is on another. Copy or mount the dataset, or store it as tfrecord."
            )
        self._split = split
        self._files = OpenFiles(self._open_file)

    def open(self) -> None:
        """Open each file and check that it has its records."""
        for index in range(len(self._split.ranges)):
            _ = self._files[index]

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the stored bytes of each example, object[n].

        Raises:
            RecordError: A file is missing or damaged; names file and record.
        """
        of_range, records = self._split.locate(examples)
        data = np.empty(len(examples), object)
        for index in np.unique(of_range).tolist():
            members = np.flatnonzero(of_range == index)
            wanted = records[members].tolist()
            try:
                found = self._files[index].read(wanted)
            except RuntimeError:
                found = [self._read_one(index, record) for record in wanted]
            # One by one: NumPy would turn a list of byte strings into an array of cut text.
            for member, record_data in zip(members.tolist(), found, strict=True):
                data[member] = record_data
        return data

    def mean_record_bytes(self) -> float:
        """Return the mean size of the records in the split's first file, as stored."""
        first = self._split.ranges[0]
        try:
            return max(1.0, os.path.getsize(first.path) / first.records_in_file)
        except OSError as error:
            raise unreadable_file(first.path, error) from error

    def describe(self, example: int) -> str:
        """Return file and record of an example, for messages."""
        (index,), (record,) = self._split.locate(np.array([example]))
        return f"record {record} of {self._split.ranges[index].path}"

    def index_location(self) -> str:
        """Return that the index is in the files."""
        self.open()
        return "the files themselves"

    def _read_one(self, index: int, record: int) -> bytes:
        """Read one record of a file in which some record cannot be read."""
        try:
            data: bytes = self._files[index].read([record])[0]
        except RuntimeError as error:
            raise RecordError(
                f"A record must match its stored checksum; record {record} of "
                f"{self._split.ranges[index].path} cannot be read: {error}. {RESTORE}"
            ) from error
        return data

    def _open_file(self, index: int) -> array_record_module.ArrayRecordReader:
        file_range = self._split.ranges[index]
        try:
            # The format's reader has no clear error for a missing file, and takes a cut one for
            # an empty one.
            with open(file_range.path, "rb"):
                pass
            reader = array_record_module.ArrayRecordReader(file_range.path, _OPTIONS)
        except (OSError, RuntimeError) as error:
            raise unreadable_file(file_range.path, error) from error
        if not reader.ok() or reader.num_records() != file_range.records_in_file:
            found = reader.num_records() if reader.ok() else "no readable index"
            raise RecordError(
                "A file must hold the records that the dataset's metadata counts, "
                f"{file_range.records_in_file} in {file_range.path}; it has {found}. {RESTORE}"
            )
        return reader

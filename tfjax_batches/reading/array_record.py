# SPDX-License-Identifier: Apache-2.0
"""Random access to the records of ArrayRecord files, by the format's own reader.

The format holds its own index and checks its own checksums, always.
"""

import os

import numpy as np
import numpy.typing as npt
from array_record.python import array_record_module

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.open_files import OpenFiles
from tfjax_batches.reading.split import Split

# For random access, says the reader's documentation.
_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"


class ArrayRecordReader:
    """Reads the records of a split by example index, those of each file in one call.

    Safe to use from many threads at a time. Files are opened on first use.

    Args:
        source: Where the records are.
    """

    def __init__(self, source: Split) -> None:
        self._source = source
        self._files = OpenFiles(self._open_file)

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the stored bytes of each example, object[n].

        Raises:
            RecordError: A file is missing or damaged; names file and record.
        """
        of_range, records = self._source.locate(examples)
        data = np.empty(len(examples), object)
        for index in np.unique(of_range).tolist():
            members = np.flatnonzero(of_range == index)
            wanted = records[members].tolist()
            try:
                found = self._files[index].read(wanted)
            except RuntimeError:
                found = [self._read_one(index, record) for record in wanted]
            # Item by item: NumPy takes a list of byte strings for text, and cuts it.
            for member, record_data in zip(members.tolist(), found, strict=True):
                data[member] = record_data
        return data

    def mean_record_bytes(self) -> float:
        """Return the mean size of the records in the first file of the split, as stored."""
        first = self._source.ranges[0]
        try:
            return max(1.0, os.path.getsize(first.path) / first.records_in_file)
        except OSError as error:
            raise _unreadable(first.path, error) from error

    def describe(self, example: int) -> str:
        """Return file and record of an example, for messages."""
        of_range, records = self._source.locate(np.array([example]))
        return f"record {records[0]} of {self._source.ranges[of_range[0]].path}"

    def _read_one(self, index: int, record: int) -> bytes:
        """Read one record of a file of which not all could be read."""
        try:
            data: bytes = self._files[index].read([record])[0]
        except RuntimeError as error:
            raise RecordError(
                f"A record's data match their stored checksum; record {record} of "
                f"{self._source.ranges[index].path} cannot be read: {error}. "
                "Restore the file or prepare the dataset again."
            ) from error
        return data

    def _open_file(self, index: int) -> array_record_module.ArrayRecordReader:
        file_range = self._source.ranges[index]
        try:
            # The reader itself says little of a missing file, and reads one that was cut as empty.
            with open(file_range.path, "rb"):
                pass
            reader = array_record_module.ArrayRecordReader(file_range.path, _OPTIONS)
        except (OSError, RuntimeError) as error:
            raise _unreadable(file_range.path, error) from error
        if not reader.ok() or reader.num_records() != file_range.records_in_file:
            found = reader.num_records() if reader.ok() else "no readable index"
            raise RecordError(
                "A file holds the records that the dataset's metadata counts, "
                f"{file_range.records_in_file} in {file_range.path}; it has {found}. "
                "Restore the file or prepare the dataset again."
            )
        return reader


def _unreadable(path: str, error: Exception) -> RecordError:
    return RecordError(
        f"A split's files are readable; {path} is not: {error}. "
        "Restore the file or prepare the dataset again."
    )

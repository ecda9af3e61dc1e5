# SPDX-License-Identifier: Apache-2.0
"""Random access to the records of TFRecord files by memory map.

A record is stored as its length (uint64), a checksum of the length, the data, and a checksum of
the data, both masked CRC-32C (the format is described at
https://www.tensorflow.org/tutorials/load_data/tfrecord). Walking the lengths once gives the
offset of every record.
"""

import mmap
import os
import struct
import threading

import google_crc32c
import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.source import FileRange, Source

_HEADER_BYTES = 12  # length and its checksum
_FOOTER_BYTES = 4  # checksum of the data
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


class TFRecordReader:
    """Reads the records of a split by example index.

    Safe to use from many threads at a time. Files are opened and indexed on first use.

    Args:
        source: Where the records are.
        verify_crc: Check each record's checksum.
    """

    def __init__(self, source: Source, *, verify_crc: bool = True) -> None:
        self._source = source
        self._verify_crc = verify_crc
        self._files: dict[int, _IndexedFile] = {}
        self._lock = threading.Lock()

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the stored bytes of each example, object[n].

        Raises:
            RecordError: A file is missing or damaged; names file, record and offset.
        """
        of_range, records = self._source.locate(examples)
        data = np.empty(len(examples), object)
        places = zip(of_range.tolist(), records.tolist(), strict=True)
        for number, (index, record) in enumerate(places):
            data[number] = self._file(index).read(record, verify_crc=self._verify_crc)
        return data

    def mean_record_bytes(self) -> float:
        """Return the mean size of the records in the first file of the split, in bytes."""
        first = self._source.ranges[0]
        framing = (_HEADER_BYTES + _FOOTER_BYTES) * first.records_in_file
        return max(1.0, (_file_bytes(first.path) - framing) / first.records_in_file)

    def _file(self, index: int) -> "_IndexedFile":
        if (file := self._files.get(index)) is None:
            with self._lock:
                if (file := self._files.get(index)) is None:
                    file = self._files[index] = _IndexedFile(self._source.ranges[index])
        return file


class _IndexedFile:
    """One mapped file and the offsets of its records."""

    def __init__(self, file_range: FileRange) -> None:
        self._path = file_range.path
        try:
            with open(self._path, "rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            raise RecordError(
                f"A split's files are readable; {self._path} is not: {error}. "
                "Restore the file or prepare the dataset again."
            ) from error
        self._offsets = scan_offsets(self._data, self._path, file_range.records_in_file)

    def read(self, record: int, *, verify_crc: bool) -> bytes:
        start = int(self._offsets[record])
        (length,) = _LENGTH.unpack_from(self._data, start)
        data_start = start + _HEADER_BYTES
        data = self._data[data_start : data_start + length]
        if verify_crc:
            (stored,) = _CHECKSUM.unpack_from(self._data, data_start + length)
            if stored != _masked_crc(data):
                raise RecordError(
                    "A record's data matches its stored checksum; record "
                    f"{record} of {self._path}, at byte {start}, does not. Restore the file "
                    "or prepare the dataset again; verify_crc=False reads it as it is."
                )
        return data


def scan_offsets(data: mmap.mmap | bytes, path: str, num_records: int) -> Int64Array:
    """Return where each record of a TFRecord file begins, int64[num_records].

    Args:
        data: The whole file.
        path: Its name, for messages.
        num_records: Records that the dataset's metadata says it holds.

    Raises:
        RecordError: The lengths do not lead from record to record to the end of the file.
    """
    offsets = np.empty(num_records, np.int64)
    position, size = 0, len(data)
    for record in range(num_records):
        offsets[record] = position
        if position + _HEADER_BYTES > size:
            raise _bad_layout(path, record, position, "the file ends before it", num_records)
        (length,) = _LENGTH.unpack_from(data, position)
        following = position + _HEADER_BYTES + length + _FOOTER_BYTES
        if following > size:
            why = f"its length of {length} bytes leads beyond the end of the file at {size}"
            raise _bad_layout(path, record, position, why, num_records)
        position = following
    if position != size:
        why = f"the file goes on for {size - position} bytes"
        raise _bad_layout(path, num_records, position, why, num_records)
    return offsets


def _bad_layout(path: str, record: int, offset: int, why: str, num_records: int) -> RecordError:
    return RecordError(
        f"A file holds the records that the dataset's metadata counts, {num_records} in {path}; "
        f"at record {record}, byte {offset}, {why}. "
        "Restore the file or prepare the dataset again."
    )


def _masked_crc(data: bytes) -> int:
    crc = google_crc32c.value(data)
    rotated: int = (crc >> 15) | (crc << 17)
    return (rotated + 0xA282EAD8) & 0xFFFFFFFF


def _file_bytes(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise RecordError(
            f"A split's files exist; {path} cannot be opened: {error}. "
            "Restore the file or prepare the dataset again."
        ) from error

# SPDX-License-Identifier: Apache-2.0
"""Where the records of one TFRecord file begin, found by following the stored lengths."""

import struct
from typing import BinaryIO

import numpy as np

from tfjax_batches.errors import BatchesError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.file_errors import compressed_file, wrong_records
from tfjax_batches.reading.storage import is_remote
from tfjax_batches.reading.tfrecord.frames import FRAME_BYTES, HEADER_BYTES, read_length

# Small records are read whole, many at a time; of large ones only the header is read. That takes
# one read a record, which on a remote file system is slower than reading all data.
_CHUNK_BYTES = 2**20
_LARGE_RECORD_BYTES = 2**14


def scan_offsets(file: BinaryIO, size: int, path: str, num_records: int) -> Int64Array:
    """Return the byte at which each record begins, then the size: int64[num_records + 1].

    Raises:
        RecordError: The lengths do not lead from record to record to the end of the file.
        UnsupportedError: The file is compressed.
    """
    is_large = not is_remote(path) and size > num_records * _LARGE_RECORD_BYTES
    chunk_bytes = HEADER_BYTES if is_large else _CHUNK_BYTES
    offsets = np.empty(num_records + 1, np.int64)
    position, chunk, chunk_start = 0, b"", 0
    unpack = struct.Struct("<Q").unpack_from
    for record in range(num_records):
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            file.seek(min(position, size))  # a damaged length may lead anywhere
            chunk, chunk_start, at = file.read(chunk_bytes), position, 0
            if len(chunk) < HEADER_BYTES:
                raise _explain(file, size, path, num_records)
        offsets[record] = position
        position += unpack(chunk, at)[0] + FRAME_BYTES
    if position != size:
        raise _explain(file, size, path, num_records)
    offsets[num_records] = size
    return offsets


def _explain(file: BinaryIO, size: int, path: str, num_records: int) -> BatchesError:
    """Return the error of a scan that failed.

    After a wrong length the scan goes astray and fails further on. This scan checks the checksum
    of each length, and so finds the first damaged record.
    """
    offset = 0
    for record in range(num_records):
        file.seek(offset)
        length = read_length(file.read(HEADER_BYTES))
        if length is None or offset + length + FRAME_BYTES > size:
            if record == 0 and _is_compressed(file):
                return compressed_file(path)
            reason = f"record {record}, at byte {offset}, is cut or has a damaged length"
            return wrong_records(path, num_records, reason)
        offset += length + FRAME_BYTES
    return wrong_records(path, num_records, f"{size - offset} bytes follow them")


def _is_compressed(file: BinaryIO) -> bool:
    """Return whether a file that holds no records begins as gzip and zlib do."""
    file.seek(0)
    first, second = [*file.read(2), 0, 0][:2]
    is_gzip = (first, second) == (0x1F, 0x8B)
    is_zlib = first == 0x78 and (first * 256 + second) % 31 == 0  # RFC 1950
    return is_gzip or is_zlib

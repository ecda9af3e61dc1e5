# SPDX-License-Identifier: Apache-2.0
"""Where the records of one TFRecord file begin, found by following the stored lengths."""

import numpy as np

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.dataset_errors import RESTORE
from tfjax_batches.reading.storage import ReadAt
from tfjax_batches.reading.tfrecord.frames import (
    FRAME_BYTES,
    HEADER_BYTES,
    LENGTH,
    length_is_intact,
)

# Small records are read whole, many at a time; of large ones only the header is read.
_CHUNK_BYTES = 2**20
_LARGE_RECORD_BYTES = 2**14


def scan_offsets(
    read_at: ReadAt, size: int, path: str, num_records: int, *, skip_data: bool = True
) -> Int64Array:
    """Return the byte at which each record begins, then the size: int64[num_records + 1].

    Args:
        read_at: Reads the file.
        size: Bytes in the file.
        path: Its name, for messages.
        num_records: Records in the file by the dataset's metadata.
        skip_data: Whether to read only the headers where records are large. That takes one read a
            record, which on a remote file system is slower than reading all data.

    Raises:
        RecordError: The lengths do not lead from record to record to the end of the file.
    """
    is_large = skip_data and size > num_records * _LARGE_RECORD_BYTES
    chunk_bytes = HEADER_BYTES if is_large else _CHUNK_BYTES
    offsets = np.empty(num_records + 1, np.int64)
    position, chunk, chunk_start = 0, b"", 0
    unpack, last_header = LENGTH.unpack_from, size - HEADER_BYTES
    for record in range(num_records):
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            # A damaged length may lead to a position that int64 cannot hold.
            offsets[record] = min(position, size)
            if position > last_header:
                raise _explain(read_at, size, path, num_records, offsets[: record + 1])
            chunk, chunk_start, at = read_at(position, chunk_bytes), position, 0
            if len(chunk) < HEADER_BYTES:  # the file was cut after its size was read
                raise _explain(read_at, position, path, num_records, offsets[: record + 1])
        offsets[record] = position
        position += unpack(chunk, at)[0] + FRAME_BYTES
    offsets[num_records] = min(position, size)
    if position != size:
        raise _explain(read_at, size, path, num_records, offsets)
    return offsets


def _explain(
    read_at: ReadAt, size: int, path: str, num_records: int, offsets: Int64Array
) -> RecordError:
    """Return the error of a scan that failed, which names the first damaged header.

    After a wrong length the scan goes astray and fails further on; the checksums of the lengths
    show where it went wrong.
    """
    for record, offset in enumerate(offsets.tolist()):
        if record == num_records:
            reason = f"the file goes on for {size - offset} bytes"
            break
        header = read_at(offset, HEADER_BYTES) if offset < size else b""
        if len(header) < HEADER_BYTES:
            reason = f"the file ends, at byte {size}"
            break
        if not length_is_intact(header):
            reason = "the stored length is damaged"
            break
        length = LENGTH.unpack_from(header)[0]
        if offset + length + FRAME_BYTES > size:
            reason = f"the length of {length} bytes leads beyond the end of the file at {size}"
            break
    else:
        reason = "the file changed while it was read"
    return RecordError(
        f"A file must hold the records that the dataset's metadata counts, {num_records} in "
        f"{path}; at record {record}, byte {offset}, {reason}. {RESTORE}"
    )

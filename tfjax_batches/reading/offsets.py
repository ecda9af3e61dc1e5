# SPDX-License-Identifier: Apache-2.0
"""Where the records of one TFRecord file begin, found by walking from length to length."""

import numpy as np

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.framing import FRAME_BYTES, HEADER_BYTES, LENGTH, length_is_intact
from tfjax_batches.reading.storage import ReadAt

# Small records are read whole, many at a time; of large ones nothing but the header.
_CHUNK_BYTES = 2**20
_LARGE_RECORD_BYTES = 2**14


def scan_offsets(
    read_at: ReadAt, size: int, path: str, num_records: int, *, skip_data: bool = True
) -> Int64Array:
    """Return where each record begins, and last where the file ends, int64[num_records + 1].

    Args:
        read_at: Reads the file.
        size: Its bytes.
        path: Its name, for messages.
        num_records: Records that the dataset's metadata says it holds.
        skip_data: Whether to read headers alone where records are large. It costs a request a
            record, which on a remote file system takes longer than to read all data.

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
            # Of a damaged length it may be more than an int64 holds.
            offsets[record] = min(position, size)
            if position > last_header:
                raise _explain(read_at, size, path, num_records, offsets[: record + 1])
            chunk, chunk_start, at = read_at(position, chunk_bytes), position, 0
            if len(chunk) < HEADER_BYTES:  # cut since its size was asked for
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
    """Return the error of a walk that failed, at the first header that is damaged.

    A wrong length leads astray, and the walk fails at some later place; checksums tell where.
    """
    for record, offset in enumerate(offsets.tolist()):
        if record == num_records:
            why = f"the file goes on for {size - offset} bytes"
            break
        header = read_at(offset, HEADER_BYTES) if offset < size else b""
        if len(header) < HEADER_BYTES:
            why = f"the file ends, at byte {size}"
            break
        if not length_is_intact(header):
            why = "the stored length is damaged"
            break
        length = LENGTH.unpack_from(header)[0]
        if offset + length + FRAME_BYTES > size:
            why = f"its length of {length} bytes leads beyond the end of the file at {size}"
            break
    else:
        why = "the file changed while it was read"
    return RecordError(
        f"A file holds the records that the dataset's metadata counts, {num_records} in {path}; "
        f"at record {record}, byte {offset}, {why}. "
        "Restore the file or prepare the dataset again."
    )

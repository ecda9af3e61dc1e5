# SPDX-License-Identifier: Apache-2.0
"""How a record lies in a TFRecord file.

A record is stored as its length (uint64), a checksum of the length, the data, and a checksum of
the data, both masked CRC-32C; nothing stands between two records. The format is described at
https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import mmap
import struct

import google_crc32c

HEADER_BYTES = 12  # length and its checksum
FOOTER_BYTES = 4  # checksum of the data
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES

LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


class FrameError(ValueError):
    """Bytes that hold no such record; the caller knows of which file and says so."""


class ChecksumError(FrameError):
    """A record whose data are damaged."""


def unpack_record(buffer: bytes | mmap.mmap, start: int, end: int, *, verify_crc: bool) -> bytes:
    """Return the data of the record that fills `buffer[start:end]`.

    Raises:
        FrameError: There is no record of that length there.
        ChecksumError: There is one, and its data are not those that were written.
    """
    if not 0 <= start <= end - FRAME_BYTES:
        raise FrameError(f"no record can end at byte {end}")
    if end > len(buffer):
        raise FrameError(f"the file ends before byte {end}")
    length: int = LENGTH.unpack_from(buffer, start)[0]
    if length != end - start - FRAME_BYTES:
        raise FrameError(f"a length of {end - start - FRAME_BYTES} bytes is not stored there")
    data = buffer[start + HEADER_BYTES : end - FOOTER_BYTES]
    if verify_crc and _CHECKSUM.unpack_from(buffer, end - FOOTER_BYTES)[0] != masked_crc(data):
        raise ChecksumError("its data do not match their stored checksum")
    return data


def length_is_intact(header: bytes) -> bool:
    """Return whether the 12 bytes before a record's data hold a length and its checksum."""
    stored: int = _CHECKSUM.unpack_from(header, LENGTH.size)[0]
    return stored == masked_crc(header[: LENGTH.size])


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C of `data` in the masked form that TFRecord files store."""
    crc = google_crc32c.value(data)
    rotated: int = (crc >> 15) | (crc << 17)
    return (rotated + 0xA282EAD8) & 0xFFFFFFFF

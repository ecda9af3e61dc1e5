# SPDX-License-Identifier: Apache-2.0
"""How a record lies in a TFRecord file.

A record is stored as its length (uint64), a checksum of the length, the data, and a checksum of
the data, both masked CRC-32C; nothing stands between two records. The format is described at
https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import operator
import struct
from collections.abc import Sequence

import google_crc32c
import numpy as np
import numpy.typing as npt

HEADER_BYTES = 12  # length and its checksum
FOOTER_BYTES = 4  # checksum of the data
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES

LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER = np.dtype([("length", "<i8"), ("sum", "<u4")])
_MASK_DELTA = np.uint32(0xA282EAD8)

# The parts of a frame, taken without a step of Python for each.
_HEADER_OF = operator.itemgetter(slice(HEADER_BYTES))
_DATA_OF = operator.itemgetter(slice(HEADER_BYTES, -FOOTER_BYTES))
_CHECKSUM_OF = operator.itemgetter(slice(-FOOTER_BYTES, None))


class FrameError(ValueError):
    """Bytes that hold no such record; the caller knows of which file and says so.

    Attributes:
        member: Index of the record among those asked for.
    """

    def __init__(self, member: int, why: str) -> None:
        super().__init__(why)
        self.member = member


class ChecksumError(FrameError):
    """A record that is damaged; the message says what of it."""


def unpack_frames(
    frames: Sequence[bytes], sizes: npt.NDArray[np.int64], *, verify_crc: bool
) -> list[bytes]:
    """Return the data of some records.

    What can be done for all records at once is: of tiny ones, checking each by itself in Python
    took twice as long as all the rest of reading.

    Args:
        frames: The stored bytes of each, as far as the file has them.
        sizes: int64[n], how many bytes that should be.
        verify_crc: Check the data, and the bytes of the length, against their checksums.

    Raises:
        FrameError: There is no record of that length.
        ChecksumError: There is one, and it is not as it was written.
    """
    found = np.fromiter(map(len, frames), np.int64, len(frames))
    _check(sizes >= FRAME_BYTES, FrameError, "no record is as short as this one would be")
    _check(found == sizes, FrameError, "the file ends before the end of it")
    headers = np.frombuffer(b"".join(map(_HEADER_OF, frames)), _HEADER)
    fits = headers["length"] == sizes - FRAME_BYTES
    _check(fits, FrameError, "its length is not the one stored there")
    data = list(map(_DATA_OF, frames))
    if verify_crc:
        stored = np.frombuffer(b"".join(map(_CHECKSUM_OF, frames)), "<u4")
        sums = np.fromiter(map(google_crc32c.value, data), np.uint32, len(data))
        _check(_mask(sums) == stored, ChecksumError, "data")
        _check(_length_sums(headers["length"]) == headers["sum"], ChecksumError, "header bytes")
    return data


def _check(good: npt.NDArray[np.bool_], kind: type[FrameError], why: str) -> None:
    if not good.all():
        raise kind(int(np.argmin(good)), why)


def _length_sums(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Return the masked checksum of each length; records have few lengths, or are large."""
    distinct, place = np.unique(lengths, return_inverse=True)
    sums = [google_crc32c.value(LENGTH.pack(length)) for length in distinct.tolist()]
    return _mask(np.array(sums, np.uint32))[place]


def _mask(sums: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    return ((sums >> np.uint32(15)) | (sums << np.uint32(17))) + _MASK_DELTA


def length_is_intact(header: bytes) -> bool:
    """Return whether the 12 bytes before a record's data hold a length and its checksum."""
    stored: int = _CHECKSUM.unpack_from(header, LENGTH.size)[0]
    return stored == masked_crc(header[: LENGTH.size])


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C of `data` in the masked form that TFRecord files store."""
    return int(_mask(np.array([google_crc32c.value(data)], np.uint32))[0])

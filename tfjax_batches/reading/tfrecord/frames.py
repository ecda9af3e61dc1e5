# SPDX-License-Identifier: Apache-2.0
"""How a record is framed in a TFRecord file.

A frame is the length of the data (uint64), a checksum of the length, the data, and a checksum of
the data. Frames follow one another without a gap. The format is described at
https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import operator
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfjax_batches.reading.tfrecord.checksum import data_is_intact, lengths_are_intact, masked_crc

HEADER_BYTES = 12  # length and its checksum
FOOTER_BYTES = 4  # checksum of the data
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES

LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER = np.dtype([("length", "<i8"), ("checksum", "<u4")])

# The parts of a frame, as functions that `map` calls without a step of Python for each frame.
_HEADER_OF = operator.itemgetter(slice(HEADER_BYTES))
_DATA_OF = operator.itemgetter(slice(HEADER_BYTES, -FOOTER_BYTES))
_CHECKSUM_OF = operator.itemgetter(slice(-FOOTER_BYTES, None))


class FrameError(ValueError):
    """The bytes hold no such record. The caller knows the file and adds its name.

    Attributes:
        member: Index of the record among those asked for.
    """

    def __init__(self, member: int, reason: str) -> None:
        super().__init__(reason)
        self.member = member


class ChecksumError(FrameError):
    """The record is damaged; the message names the part that is."""


def unpack_frames(
    frames: Sequence[bytes], sizes: npt.NDArray[np.int64], *, verify_crc: bool
) -> list[bytes]:
    """Return the data of some records.

    Vectorised over records: with tiny ones, per-record checks in Python took twice as long as the
    rest of reading.

    Args:
        frames: The stored bytes of each record; fewer than its size where the file ends early.
        sizes: int64[n], bytes of each frame according to the index.
        verify_crc: Whether to compare data and length with their checksums.

    Raises:
        FrameError: There is no record of that length.
        ChecksumError: The record differs from what was written.
    """
    found = np.fromiter(map(len, frames), np.int64, len(frames))
    _check(sizes >= FRAME_BYTES, FrameError, "no record is that short")
    _check(found == sizes, FrameError, "the file ends before the record does")
    headers = np.frombuffer(b"".join(map(_HEADER_OF, frames)), _HEADER)
    has_length = headers["length"] == sizes - FRAME_BYTES
    _check(has_length, FrameError, "the length stored there is another")
    data = list(map(_DATA_OF, frames))
    if verify_crc:
        stored = np.frombuffer(b"".join(map(_CHECKSUM_OF, frames)), "<u4")
        _check(data_is_intact(data, stored), ChecksumError, "data")
        intact = lengths_are_intact(headers["length"], headers["checksum"])
        _check(intact, ChecksumError, "header")
    return data


def length_is_intact(header: bytes) -> bool:
    """Return whether the 12 bytes before a record's data hold a length and its checksum."""
    stored: int = _CHECKSUM.unpack_from(header, LENGTH.size)[0]
    return stored == masked_crc(header[: LENGTH.size])


def _check(good: npt.NDArray[np.bool_], kind: type[FrameError], reason: str) -> None:
    if not good.all():
        raise kind(int(np.argmin(good)), reason)

# SPDX-License-Identifier: Apache-2.0
"""How a record is framed in a TFRecord file.

A frame is the length of the data (uint64), a checksum of the length, the data, and a checksum of
the data. Frames follow one another without a gap. The format is described at
https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import operator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfjax_batches.reading.tfrecord.checksum import length_crcs, masked_crcs

HEADER_BYTES = 12  # length and its checksum
FOOTER_BYTES = 4  # checksum of the data
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES

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
        FrameError: A record is not there, or differs from what was written.
    """
    found = np.fromiter(map(len, frames), np.int64, len(frames))
    _check((found == sizes) & (sizes >= FRAME_BYTES), "the file has no whole record there")
    headers = np.frombuffer(b"".join(map(_HEADER_OF, frames)), _HEADER)
    lengths = headers["length"]
    _check(lengths == sizes - FRAME_BYTES, "the length stored there is another")
    data = list(map(_DATA_OF, frames))
    if verify_crc:
        stored = np.frombuffer(b"".join(map(_CHECKSUM_OF, frames)), "<u4")
        _check(masked_crcs(data) == stored, "the data differ from their checksum")
        _check(length_crcs(lengths) == headers["checksum"], "the header differs from its checksum")
    return data


def read_length(header: bytes) -> int | None:
    """Return the length that the bytes before a record's data hold; None if they are damaged."""
    if len(header) < HEADER_BYTES:
        return None
    parsed = np.frombuffer(header, _HEADER)
    is_intact = length_crcs(parsed["length"]) == parsed["checksum"]
    return int(parsed["length"][0]) if is_intact else None


def _check(good: npt.NDArray[np.bool_], reason: str) -> None:
    if not good.all():
        raise FrameError(int(np.argmin(good)), reason)

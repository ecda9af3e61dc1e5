# SPDX-License-Identifier: Apache-2.0
"""The checksums of a TFRecord file: masked CRC-32C, of each record's data and of its length.

The format is described at https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import struct
from collections.abc import Sequence

import google_crc32c
import numpy as np
import numpy.typing as npt

_LENGTH = struct.Struct("<Q")
_MASK_DELTA = np.uint32(0xA282EAD8)


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C of `data` in the masked form that TFRecord files store."""
    return int(_masked_crcs([data])[0])


def data_is_intact(data: Sequence[bytes], stored: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Return which of some records match their stored checksums, bool[n].

    Args:
        data: The data of each record.
        stored: uint32[n], the checksum in the file.
    """
    return np.equal(_masked_crcs(data), stored)


def lengths_are_intact(
    lengths: npt.NDArray[np.int64], stored: npt.NDArray[np.uint32]
) -> npt.NDArray[np.bool_]:
    """Return which of some stored lengths match their stored checksums, bool[n].

    Args:
        lengths: int64[n], the length in the file.
        stored: uint32[n], its checksum in the file.
    """
    # Each distinct length once: records either have few lengths or are large.
    distinct, index = np.unique(lengths, return_inverse=True)
    sums = _masked_crcs([_LENGTH.pack(length) for length in distinct.tolist()])
    return np.equal(sums[index], stored)


def _masked_crcs(data: Sequence[bytes]) -> npt.NDArray[np.uint32]:
    sums = np.fromiter(map(google_crc32c.value, data), np.uint32, len(data))
    return ((sums >> np.uint32(15)) | (sums << np.uint32(17))) + _MASK_DELTA

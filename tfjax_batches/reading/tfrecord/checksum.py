# SPDX-License-Identifier: Apache-2.0
"""The checksums of a TFRecord file: masked CRC-32C, of each record's data and of its length.

The format is described at https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

from collections.abc import Sequence

import google_crc32c
import numpy as np
import numpy.typing as npt

_MASK_DELTA = np.uint32(0xA282EAD8)


def masked_crcs(data: Sequence[bytes]) -> npt.NDArray[np.uint32]:
    """Return the CRC-32C of each string in the masked form that TFRecord files store, uint32[n]."""
    sums = np.fromiter(map(google_crc32c.value, data), np.uint32, len(data))
    return ((sums >> np.uint32(15)) | (sums << np.uint32(17))) + _MASK_DELTA


def length_crcs(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Return the masked CRC-32C of each length as TFRecord files store it, uint32[n]."""
    # Each distinct length once: records either have few lengths or are large.
    distinct, index = np.unique(lengths, return_inverse=True)
    return masked_crcs([length.tobytes() for length in distinct.astype("<i8")])[index]

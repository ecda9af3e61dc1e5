# SPDX-License-Identifier: Apache-2.0
"""The seeds of random transforms: of an example in an epoch, never of a row, group or process.

Owns their values: `derive_seeds` returns the same ones on every machine and every release. They
share no key with the order.
"""

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.splitmix import GOLDEN, mix, mix_seed

Int32Array = npt.NDArray[np.int32]

# So that seeds have nothing to do with the keys of the permutation.
_DOMAIN = np.uint64(0x5EED0F7244AF0245)


def derive_seeds(
    seed: int, epochs: Int64Array, examples: Int64Array, places: tuple[int, ...]
) -> Int32Array:
    """Return a seed for each example and each place in the chain of transforms.

    Seed, epoch, example and place are mixed one after the other: no two of them can make up for
    each other, as they could if they were added.

    Args:
        seed: Seed of the run, any int that fits 64 bits.
        epochs: int64[n].
        examples: int64[n]; below 0 where the row is padding.
        places: Places of the random transforms in the chain, from 0.

    Returns:
        int32[n, places, 2], for `tf.random.stateless_*`. Zeros on padding, and there alone.

    Example:
        >>> derive_seeds(0, np.array([0, 0]), np.array([7, -1]), (0,)).tolist()
        [[[-2142717871, -452876090]], [[0, 0]]]
    """
    keys = mix(mix_seed(seed) ^ _DOMAIN ^ mix(epochs.astype(np.uint64) + np.uint64(1)))
    keys = mix(keys ^ mix(examples.astype(np.uint64) + np.uint64(1)))  # [n]
    steps = np.array([(place + 1) * GOLDEN % 2**64 for place in places], np.uint64)
    mixed = mix(keys[:, np.newaxis] + steps)  # [n, places]
    mixed[mixed == 0] = np.uint64(1)
    mixed[examples < 0] = np.uint64(0)
    halves = np.stack([mixed >> np.uint64(32), mixed & np.uint64(2**32 - 1)], axis=-1)
    return halves.astype(np.uint32).view(np.int32)

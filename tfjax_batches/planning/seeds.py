# SPDX-License-Identifier: Apache-2.0
"""The seeds of random transforms, which depend on seed, epoch, example and place in the chain.

They do not depend on row, group or process. `derive_seeds` returns the same values on every machine
and in every release, and shares no key with the order.
"""

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.splitmix import GOLDEN, mix, mix_seed

Int32Array = npt.NDArray[np.int32]

# Keeps the seeds independent of the keys of the permutation.
_DOMAIN = np.uint64(0x5EED0F7244AF0245)


def derive_seeds(
    seed: int, epochs: Int64Array, examples: Int64Array, places: tuple[int, ...]
) -> Int32Array:
    """Return a seed for each example and each place in the chain of transforms.

    Seed, epoch, example and place are mixed one after the other, not added, so that a change of one
    cannot cancel a change of another.

    Args:
        seed: Seed of the run, any int that fits 64 bits.
        epochs: int64[n].
        examples: int64[n], negative for padding.
        places: Places of the random transforms in the chain, from 0.

    Returns:
        int32[n, places, 2], for `tf.random.stateless_*`. Zeros for padding and nowhere else.

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

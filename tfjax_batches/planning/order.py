# SPDX-License-Identifier: Apache-2.0
"""The permutation that shuffles an epoch, computed for some places without the others.

Owns `ORDER_VERSION`: for one version, `permute` returns the same values on every machine and in
every release, because runs resume by them. Holds at all times: for each (seed, epoch), `permute`
maps `range(size)` one to one onto itself, and `unpermute` inverts it. Knows no batches, processes
or files.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.splitmix import FACTOR_1, FACTOR_2, GOLDEN, Uint64Array, mix, mix_seed

ORDER_VERSION = 1
"""Increased whenever `permute` would return other values for the same arguments."""

Int64Array = npt.NDArray[np.int64]

# With 8 rounds, orders of fewer than 10 examples are visibly uneven. With 12, a chi-square test of
# 20,000 epochs finds all orders of 3, 4, 5 or 6 examples equally likely.
_ROUNDS = 12
_HALF_BITS = np.uint64(32)


def permute(places: Int64Array, size: int, seed: int, epochs: Int64Array) -> Int64Array:
    """Return the example at each place of a shuffled epoch.

    An alternating Feistel network on the grid `ceil(sqrt(size)) x ceil(size / ceil(sqrt(size)))`
    (the generalised Feistel cipher of Black and Rogaway, "Ciphers with Arbitrary Finite
    Domains", 2002) with cycle walking over the few cells beyond `size`: about one in sqrt(size) of
    the grid, where a domain of 2**n would have up to half.

    Args:
        places: int64[n], each `0 <= place < size`.
        size: Examples in an epoch, at least 1 and below 2**62.
        seed: Any int that fits 64 bits.
        epochs: int64[n], the epoch of each place.

    Returns:
        int64[n], each in `range(size)`.

    Example:
        >>> permute(np.arange(5), size=5, seed=0, epochs=np.zeros(5, np.int64)).tolist()
        [0, 1, 3, 4, 2]
    """
    return _walk(_encipher, places, size, seed, epochs)


def unpermute(examples: Int64Array, size: int, seed: int, epochs: Int64Array) -> Int64Array:
    """Return the place of each example in its shuffled epoch: the inverse of `permute`.

    Args:
        examples: int64[n], each `0 <= example < size`.
        size: As for `permute`.
        seed: As for `permute`.
        epochs: int64[n], the epoch that is asked about for each example.

    Returns:
        int64[n], each in `range(size)`.

    Example:
        >>> unpermute(np.array([0, 1, 3, 4, 2]), size=5, seed=0, epochs=np.zeros(5, np.int64))
        array([0, 1, 2, 3, 4])
    """
    return _walk(_decipher, examples, size, seed, epochs)


def _walk(
    cipher: Callable[[Uint64Array, int, int, Uint64Array], Uint64Array],
    numbers: Int64Array,
    size: int,
    seed: int,
    epochs: Int64Array,
) -> Int64Array:
    """Apply a cipher of the grid to numbers below `size` until they are below it again."""
    width = math.isqrt(size - 1) + 1  # ceil(sqrt(size))
    height = -(-size // width)
    epoch_values, epoch_of = np.unique(epochs, return_inverse=True)
    keys = _round_keys(seed, epoch_values)  # [rounds, epochs]
    values = numbers.astype(np.uint64)
    pending = np.arange(values.size)  # indices of values still to be mapped into range
    while pending.size:
        key_of = epoch_of[pending] if epoch_values.size > 1 else 0
        values[pending] = cipher(values[pending], width, height, keys[:, key_of])
        pending = pending[values[pending] >= size]
    return values.astype(np.int64)


def _encipher(values: Uint64Array, width: int, height: int, keys: Uint64Array) -> Uint64Array:
    """Apply all rounds once, with keys of shape [rounds] or [rounds, n]."""
    left, right = np.divmod(values, np.uint64(height))  # left < width, right < height
    for number in range(0, _ROUNDS, 2):
        left = (left + _hash_below(right, keys[number], width)) % np.uint64(width)
        right = (right + _hash_below(left, keys[number + 1], height)) % np.uint64(height)
    return left * np.uint64(height) + right


def _decipher(values: Uint64Array, width: int, height: int, keys: Uint64Array) -> Uint64Array:
    """Undo `_encipher`."""
    left, right = np.divmod(values, np.uint64(height))
    for number in reversed(range(0, _ROUNDS, 2)):
        # Unsigned: the width or height is added first.
        shift = np.uint64(height) - _hash_below(left, keys[number + 1], height)
        right = (right + shift) % np.uint64(height)
        left = (left + np.uint64(width) - _hash_below(right, keys[number], width)) % np.uint64(
            width
        )
    return left * np.uint64(height) + right


def _hash_below(half: Uint64Array, key: Uint64Array, bound: int) -> Uint64Array:
    """Return a value below `bound` (< 2**32) for each half, from the high bits of a hash."""
    # In place: for the few hundred values of a step, allocating arrays is most of the cost.
    mixed = half ^ key
    mixed *= FACTOR_1
    mixed ^= mixed >> _HALF_BITS
    mixed *= FACTOR_2
    mixed >>= _HALF_BITS
    mixed *= np.uint64(bound)
    mixed >>= _HALF_BITS
    return mixed


def _round_keys(seed: int, epochs: Int64Array) -> Uint64Array:
    """Return uint64[rounds, epochs]."""
    # Not sums, which would give seed 1 in epoch 0 the order of seed 0 in epoch 1.
    seed_key = mix_seed(seed)
    epoch_keys = mix(seed_key ^ mix(epochs.astype(np.uint64) + np.uint64(1)))
    numbers = np.arange(1, _ROUNDS + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return mix(epoch_keys[np.newaxis, :] + numbers[:, np.newaxis])

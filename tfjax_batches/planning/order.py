# SPDX-License-Identifier: Apache-2.0
"""The permutation that shuffles an epoch, computed for some places without the others.

Owns `ORDER_VERSION`: for one version, `permute` returns the same values on every machine and in
every release, because runs resume by them. Holds at all times: for each (seed, epoch), `permute`
maps `range(size)` one to one onto itself, and `unpermute` inverts it. Knows no batches, processes
or files.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.splitmix import FACTOR_1, FACTOR_2, GOLDEN, MASK64, Uint64Array, mix

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
    return _walk(_encipher, places, _domains_of_one(size, seed, epochs))


def permute_each(
    places: Int64Array,
    orders: npt.NDArray[np.integer],
    sizes: Int64Array,
    seeds: Uint64Array,
    epochs: Int64Array,
) -> Int64Array:
    """Return the example at each place of the epochs of several orders, as `permute` does for one.

    For few places of many orders, most of the time would go into as many calls of NumPy.

    Args:
        places: int64[n], each `0 <= place < size` of its order.
        orders: int[n], the order of each place; fastest where equal ones stand together.
        sizes: int64[orders].
        seeds: uint64[orders].
        epochs: int64[n], the epoch of each place.
    """
    return _walk(_encipher, places, _domains(orders, sizes, seeds, epochs))


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
    return _walk(_decipher, examples, _domains_of_one(size, seed, epochs))


@dataclasses.dataclass(frozen=True, slots=True)
class _Domains:
    """What each of n numbers is permuted in: an order and an epoch of it.

    Attributes:
        sizes: uint64[domains].
        widths: Of the grids, uint64[domains].
        heights: The same.
        keys: uint64[rounds, domains].
        of: int64[n], the domain of each number. None: there is one domain for all.
    """

    sizes: Uint64Array
    widths: Uint64Array
    heights: Uint64Array
    keys: Uint64Array
    of: Int64Array | None

    def each(self, column: Uint64Array) -> Uint64Array:
        """Return the value of a column for each number, uint64[n] or uint64[1]."""
        return column if self.of is None else column[self.of]

    def take(self, indices: Int64Array) -> "_Domains":
        """Return the domains of some of the numbers."""
        return self if self.of is None else dataclasses.replace(self, of=self.of[indices])


def _domains(
    orders: npt.NDArray[np.integer], sizes: Int64Array, seeds: Uint64Array, epochs: Int64Array
) -> _Domains:
    """Return the domain of each number, one for each run of numbers of one order and epoch."""
    begins = np.ones(len(orders), bool)
    begins[1:] = (orders[1:] != orders[:-1]) | (epochs[1:] != epochs[:-1])
    (starts,) = np.nonzero(begins)
    grids = np.array([_grid(size) for size in sizes.tolist()], np.uint64)  # [orders, 2]
    order_of = orders[starts]
    return _Domains(
        sizes=sizes.astype(np.uint64)[order_of],
        widths=grids[order_of, 0],
        heights=grids[order_of, 1],
        keys=_round_keys(mix(seeds[order_of] + np.uint64(GOLDEN)), epochs[starts]),
        of=None if len(starts) == 1 else np.cumsum(begins) - 1,
    )


def _domains_of_one(size: int, seed: int, epochs: Int64Array) -> _Domains:
    """Return the domains of numbers of one order."""
    seeds = np.array([seed & MASK64], np.uint64)
    return _domains(np.zeros(len(epochs), np.int8), np.array([size]), seeds, epochs)


def _grid(size: int) -> tuple[int, int]:
    width = math.isqrt(size - 1) + 1  # ceil(sqrt(size))
    return width, -(-size // width)


def _walk(
    cipher: Callable[[Uint64Array, _Domains], Uint64Array], numbers: Int64Array, domains: _Domains
) -> Int64Array:
    """Apply a cipher of the grid to numbers below their size until they are below it again."""
    values = cipher(numbers.astype(np.uint64), domains)
    (beyond,) = np.nonzero(values >= domains.each(domains.sizes))
    if beyond.size:
        values[beyond] = _walk(cipher, values[beyond].astype(np.int64), domains.take(beyond))
    return values.astype(np.int64)


def _encipher(values: Uint64Array, domains: _Domains) -> Uint64Array:
    """Apply all rounds once."""
    width, height = domains.each(domains.widths), domains.each(domains.heights)
    left, right = np.divmod(values, height)  # left < width, right < height
    for number in range(0, _ROUNDS, 2):
        left = _wrap(left + _hash_below(right, domains.each(domains.keys[number]), width), width)
        key = domains.each(domains.keys[number + 1])
        right = _wrap(right + _hash_below(left, key, height), height)
    joined: Uint64Array = left * height + right
    return joined


def _decipher(values: Uint64Array, domains: _Domains) -> Uint64Array:
    """Undo `_encipher`."""
    width, height = domains.each(domains.widths), domains.each(domains.heights)
    left, right = np.divmod(values, height)
    for number in reversed(range(0, _ROUNDS, 2)):
        # Unsigned: the width or height is added first.
        key = domains.each(domains.keys[number + 1])
        right = _wrap(right + (height - _hash_below(left, key, height)), height)
        key = domains.each(domains.keys[number])
        left = _wrap(left + (width - _hash_below(right, key, width)), width)
    joined: Uint64Array = left * height + right
    return joined


def _wrap(values: Uint64Array, bound: Any) -> Uint64Array:
    """Return values below twice a bound less the bound, where they are not below it."""
    # Below the bound the difference wraps around to a huge number; dividing would take longer.
    wrapped: Uint64Array = np.minimum(values, values - bound)
    return wrapped


def _hash_below(half: Uint64Array, key: Uint64Array, bound: Any) -> Uint64Array:
    """Return a value below `bound` (< 2**32) for each half, from the high bits of a hash."""
    # In place: for the few hundred values of a step, allocating arrays is most of the cost.
    mixed = half ^ key
    mixed *= FACTOR_1
    mixed ^= mixed >> _HALF_BITS
    mixed *= FACTOR_2
    mixed >>= _HALF_BITS
    mixed *= bound
    mixed >>= _HALF_BITS
    return mixed


def _round_keys(seed_keys: Uint64Array, epochs: Int64Array) -> Uint64Array:
    """Return uint64[rounds, epochs], of one mixed seed or of one for each epoch."""
    # Not sums, which would give seed 1 in epoch 0 the order of seed 0 in epoch 1.
    epoch_keys = mix(seed_keys ^ mix(epochs.astype(np.uint64) + np.uint64(1)))
    numbers = np.arange(1, _ROUNDS + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return mix(epoch_keys[np.newaxis, :] + numbers[:, np.newaxis])

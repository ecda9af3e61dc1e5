# SPDX-License-Identifier: Apache-2.0
"""The orders of an epoch as values: which number stands at which place, and at which place it is.

Holds at all times: in every epoch, `numbers_at` maps `range(size)` one to one onto itself, and
`places_of` inverts it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.block_order import WHOLE_SHARE, BlockOrder, BlockShape, Shares
from tfjax_batches.planning.order import Int64Array, permute, permute_each, unpermute
from tfjax_batches.planning.policies import Shuffle


class EpochOrder(Protocol):
    """An order of the numbers of an epoch, in each epoch one of its own."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What identifies it beside size and seed, as JSON values."""

    def numbers_at(self, places: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the number at each place of an epoch, all int64[n]."""

    def places_of(self, numbers: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the place of each number in an epoch, all int64[n]."""


@dataclasses.dataclass(frozen=True, slots=True)
class SplitOrder:
    """The order of the split, in every epoch."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Its policy."""
        return {"shuffle": Shuffle.NONE.value}

    def numbers_at(self, places: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the places."""
        return places

    def places_of(self, numbers: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the numbers."""
        return numbers


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GlobalOrder:
    """A permutation of the whole epoch, fixed by seed and epoch.

    Attributes:
        size: Numbers of an epoch.
        seed: Seed of the order.
    """

    size: int
    seed: int

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Its policy."""
        return {"shuffle": Shuffle.GLOBAL.value}

    def numbers_at(self, places: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the number at each place of an epoch, all int64[n]."""
        return permute(places, self.size, self.seed, epochs)

    def places_of(self, numbers: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the place of each number in an epoch, all int64[n]."""
        return unpermute(numbers, self.size, self.seed, epochs)


def numbers_at_each(
    orders: Sequence[EpochOrder],
    of: npt.NDArray[np.integer],
    places: Int64Array,
    epochs: Int64Array,
) -> Int64Array:
    """Return the number at each place of the epochs of several orders, int64[n].

    Args:
        orders: The orders.
        of: int[n], the order of each place, as an index.
        places: int64[n].
        epochs: int64[n], the epoch of each place.
    """
    is_shuffled = np.array([isinstance(order, GlobalOrder) for order in orders])
    pairs = [(o.size, o.seed) if isinstance(o, GlobalOrder) else (1, 0) for o in orders]
    sizes, seeds = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
    numbers = places.copy()
    if (here := is_shuffled[of]).any():
        numbers[here] = permute_each(
            places[here], of[here], sizes.astype(np.int64), seeds, epochs[here]
        )
    for number, order in enumerate(orders):
        if isinstance(order, BlockOrder) and (here := of == number).any():
            numbers[here] = order.numbers_at(places[here], epochs[here])
    return numbers


def make_order(
    shuffle: Shuffle, size: int, seed: int, shape: BlockShape | None, shares: Shares = WHOLE_SHARE
) -> EpochOrder:
    """Return the order of a policy.

    Args:
        shuffle: The policy.
        size: Numbers of an epoch.
        seed: Seed of the order.
        shape: How BLOCK cuts an epoch; None for other policies.
        shares: As `BlockOrder` takes them.
    """
    if shuffle is Shuffle.BLOCK:
        assert shape is not None
        return BlockOrder(size=size, seed=seed, shape=shape, shares=shares)
    return SplitOrder() if shuffle is Shuffle.NONE else GlobalOrder(size=size, seed=seed)

# SPDX-License-Identifier: Apache-2.0
"""The orders of an epoch as values: which number stands at which place, and at which place it is.

Holds at all times: in every epoch, `numbers_at` maps `range(size)` one to one onto itself, and
`places_of` inverts it.
"""

import dataclasses
from typing import Protocol

from tfjax_batches.planning.order import Int64Array, permute, unpermute
from tfjax_batches.planning.policies import Shuffle


class EpochOrder(Protocol):
    """An order of the numbers of an epoch, in each epoch one of its own."""

    @property
    def shuffle(self) -> Shuffle:
        """Its policy."""

    def numbers_at(self, places: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the number at each place of an epoch, all int64[n]."""

    def places_of(self, numbers: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the place of each number in an epoch, all int64[n]."""


@dataclasses.dataclass(frozen=True, slots=True)
class SplitOrder:
    """The order of the split, in every epoch."""

    @property
    def shuffle(self) -> Shuffle:
        """NONE."""
        return Shuffle.NONE

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
    def shuffle(self) -> Shuffle:
        """GLOBAL."""
        return Shuffle.GLOBAL

    def numbers_at(self, places: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the number at each place of an epoch, all int64[n]."""
        return permute(places, self.size, self.seed, epochs)

    def places_of(self, numbers: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the place of each number in an epoch, all int64[n]."""
        return unpermute(numbers, self.size, self.seed, epochs)


def make_order(shuffle: Shuffle, size: int, seed: int) -> EpochOrder:
    """Return the order of a policy."""
    return SplitOrder() if shuffle is Shuffle.NONE else GlobalOrder(size=size, seed=seed)

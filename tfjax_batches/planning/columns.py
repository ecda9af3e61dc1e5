# SPDX-License-Identifier: Apache-2.0
"""Which column each place of an epoch draws from, so that a row of the batch stays in its column.

A sequence of items is cut into columns, contiguous runs of it. Each column is walked from its first
item to its last. A source that has a share of the rows of each batch draws from a column near the
row: place q falls on row ⌊q / share⌋ mod columns, give or take what the mixture rounds. So each
process walks through few columns, and knows nothing of the other processes.

Holds at all times: `items_at` maps `range(size)` one to one onto itself, and `places_of` inverts
it.
"""

import dataclasses
import functools
import math
from fractions import Fraction

import numpy as np

from tfjax_batches.planning.order import Int64Array

# Rows move on against columns by less than a row in this many places times as many batches.
_MOST_PLACES_OF_PATTERN = 2**16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """The map place → item of a sequence that is cut into columns.

    Attributes:
        size: Items, and places.
        count: Columns.
        share: Places among as many rows, above 0 and at most 1.

    Example:
        >>> Columns(size=10, count=4).items_at(np.arange(10)).tolist()
        [0, 3, 6, 8, 1, 4, 7, 9, 2, 5]
    """

    size: int
    count: int
    share: Fraction = Fraction(1)

    def items_at(self, places: Int64Array) -> Int64Array:
        """Return the item that each place draws, both int64[n]."""
        pattern = self._pattern
        rounds, within = np.divmod(places, len(pattern.columns))
        columns = pattern.columns[within]
        drawn: Int64Array = rounds * pattern.draws[columns]
        return self.starts[columns] + drawn + pattern.ranks[within]

    def places_of(self, items: Int64Array) -> Int64Array:
        """Return the place that draws each item, both int64[n]."""
        pattern = self._pattern
        columns = np.searchsorted(self.starts, items, side="right") - 1
        rounds, ranks = np.divmod(items - self.starts[columns], pattern.draws[columns])
        within = pattern.places[pattern.firsts[columns] + ranks]
        return rounds * len(pattern.columns) + within

    def drawn_before(self, place: int) -> Int64Array:
        """Return how many items of each column the places before `place` draw, int64[count]."""
        rounds, rest = divmod(place, len(self._pattern.columns))
        drawn: Int64Array = rounds * self._pattern.draws
        return drawn + np.bincount(self._pattern.columns[:rest], minlength=self.count)

    @functools.cached_property
    def starts(self) -> Int64Array:
        """The first item of each column, int64[count]."""
        lengths = self.drawn_before(self.size)
        return np.cumsum(lengths) - lengths

    @functools.cached_property
    def _pattern(self) -> "_Pattern":
        return _make_pattern(self.count, self.share)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    """The columns of so many places, after which they repeat.

    Attributes:
        columns: int64[places], the column of each place.
        ranks: int64[places], how many places before it have the same column.
        places: int64[places], those of the first column in order, then those of the second, and so
            on.
        draws: int64[count], places of each column.
        firsts: int64[count], where each column begins in `places`.
    """

    columns: Int64Array
    ranks: Int64Array
    places: Int64Array
    draws: Int64Array
    firsts: Int64Array


@functools.lru_cache(maxsize=64)
def _make_pattern(count: int, share: Fraction) -> _Pattern:
    """Return the pattern of the places that fall on whole rounds of `count` rows, nearly."""
    most_rounds = max(1, _MOST_PLACES_OF_PATTERN // math.ceil(share * count))
    per_round = (share * count).limit_denominator(most_rounds)
    per_round = max(per_round, Fraction(1, _MOST_PLACES_OF_PATTERN))
    length, rounds = per_round.numerator, per_round.denominator
    columns = np.arange(length) * rounds % length * count // length
    draws = np.bincount(columns, minlength=count)
    firsts = np.cumsum(draws) - draws
    places = np.argsort(columns, kind="stable")
    ranks = np.empty(length, np.int64)
    ranks[places] = np.arange(length) - firsts[columns[places]]
    return _Pattern(columns=columns, ranks=ranks, places=places, draws=draws, firsts=firsts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnStages:
    """Columns that are cut anew at some places, from the items that are left.

    What comes before a place does not depend on the stages from there on.

    Attributes:
        size: Items, and places.
        count: Columns.
        stages: (first place, share from there on), in order of the place, from 0.
    """

    size: int
    count: int
    stages: tuple[tuple[int, Fraction], ...]

    def items_at(self, places: Int64Array) -> Int64Array:
        """Return the item that each place draws, both int64[n]."""
        items = np.empty_like(places)
        of_place = np.searchsorted(self._starts, places, side="right") - 1
        for stage in np.unique(of_place).tolist():
            here = of_place == stage
            found = self._columns[stage].items_at(places[here] - self._starts[stage])
            for left in reversed(self._left[:stage]):
                found = left.items_at(found)
            items[here] = found
        return items

    def places_of(self, items: Int64Array) -> Int64Array:
        """Return the place that draws each item, both int64[n]."""
        places = np.empty_like(items)
        pending = np.arange(len(items))
        for stage, columns in enumerate(self._columns):
            places[pending] = self._starts[stage] + columns.places_of(items)
            if stage < len(self._left):
                later = places[pending] >= self._starts[stage + 1]
                items, pending = self._left[stage].ranks_of(items[later]), pending[later]
        return places

    @functools.cached_property
    def _starts(self) -> Int64Array:
        return np.array([start for start, _ in self.stages], np.int64)

    @functools.cached_property
    def _columns(self) -> list[Columns]:
        """The columns of each stage, over the items that the stages before it left."""
        return [
            Columns(size=self.size - start, count=self.count, share=share)
            for start, share in self.stages
        ]

    @functools.cached_property
    def _left(self) -> "list[_Left]":
        """What each stage leaves to the next."""
        lengths = np.diff(self._starts).tolist()
        return [_Left.of(c, n) for c, n in zip(self._columns, lengths, strict=False)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """The items that are left at the ends of columns, numbered from 0.

    Attributes:
        columns: int64[count], the first item of each column.
        starts: int64[count], the first item of each column that is left.
        ranks: int64[count], its number.
    """

    columns: Int64Array
    starts: Int64Array
    ranks: Int64Array

    @classmethod
    def of(cls, columns: Columns, place: int) -> "_Left":
        """Return what the places from `place` on would have drawn."""
        starts = columns.starts + columns.drawn_before(place)
        lengths = np.append(columns.starts[1:], columns.size) - starts
        return cls(columns=columns.starts, starts=starts, ranks=np.cumsum(lengths) - lengths)

    def items_at(self, ranks: Int64Array) -> Int64Array:
        """Return the item of each number, both int64[n]."""
        columns = np.searchsorted(self.ranks, ranks, side="right") - 1
        return self.starts[columns] + ranks - self.ranks[columns]

    def ranks_of(self, items: Int64Array) -> Int64Array:
        """Return the number of each item that is left, both int64[n]."""
        columns = np.searchsorted(self.columns, items, side="right") - 1
        return self.ranks[columns] + items - self.starts[columns]

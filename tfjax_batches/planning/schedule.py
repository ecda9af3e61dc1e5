# SPDX-License-Identifier: Apache-2.0
"""How many rows each step has, and so at which position it begins.

Holds at all times: steps follow each other without a gap, and `locate` inverts `positions_of`.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from tfjax_batches.planning.order import Int64Array

MOST_POSITIONS = 2**61
"""Positions of an endless run: they are computed in int64."""

BatchSize: TypeAlias = int | Sequence[tuple[int, int]]
"""Rows of each step; or (first step, rows from there on), in order of the step, from step 0."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """The map step → (position of its first row, rows), and its inverse.

    Attributes:
        sizes: (first step, rows of each step from there on), in order of the step, from step 0.
        first_position: Position of row 0 of step 0. Not 0 where a restored run goes on with another
            batch size, which need not divide the position at which it was saved.

    Example:
        >>> schedule = Schedule(sizes=((0, 4), (2, 8)))
        >>> schedule.positions_of(np.arange(5)).tolist()
        [0, 4, 8, 16, 24]
        >>> schedule.locate(17)
        (3, 1)
    """

    sizes: tuple[tuple[int, int], ...]
    first_position: int = 0

    @classmethod
    def of(cls, global_batch_size: BatchSize) -> "Schedule":
        """Return the schedule of a batch size, or of one by step."""
        if isinstance(global_batch_size, int):
            return cls(sizes=((0, global_batch_size),))
        return cls(sizes=tuple((step, rows) for step, rows in global_batch_size))

    @functools.cached_property
    def _starts(self) -> Int64Array:
        """The first step of each size, int64[sizes]."""
        return np.array([step for step, _ in self.sizes], np.int64)

    @functools.cached_property
    def _rows(self) -> Int64Array:
        """int64[sizes]."""
        return np.array([rows for _, rows in self.sizes], np.int64)

    @functools.cached_property
    def _positions(self) -> Int64Array:
        """The position at which each size begins, int64[sizes]."""
        before = np.cumsum(np.diff(self._starts) * self._rows[:-1])
        return self.first_position + np.concatenate([[0], before]).astype(np.int64)

    def rows_at(self, step: int) -> int:
        """Return the rows of a step."""
        return int(self.rows_of(np.array([step], np.int64))[0])

    def rows_of(self, steps: Int64Array) -> Int64Array:
        """Return the rows of each step, both int64[n]."""
        return self._rows[np.searchsorted(self._starts, steps, side="right") - 1]

    def position_of(self, step: int) -> int:
        """Return the position of the first row of a step."""
        return int(self.positions_of(np.array([step], np.int64))[0])

    def positions_of(self, steps: Int64Array) -> Int64Array:
        """Return the position of the first row of each step, both int64[n]."""
        size = np.searchsorted(self._starts, steps, side="right") - 1
        return self._positions[size] + (steps - self._starts[size]) * self._rows[size]

    def locate(self, position: int) -> tuple[int, int]:
        """Return step and row of a position that is not before the first."""
        (step,), (row,) = self.locate_each(np.array([position], np.int64))
        return int(step), int(row)

    def locate_each(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return step and row of positions that are not before the first, all int64[n]."""
        size = np.searchsorted(self._positions, positions, side="right") - 1
        steps, rows = np.divmod(positions - self._positions[size], self._rows[size])
        return self._starts[size] + steps, rows

    def steps_before(self, position: int) -> int:
        """Return how many whole steps come before a position."""
        return self.locate(position)[0]

    def fraction_of(self, position: int) -> float:
        """Return a position in steps: 2.5 is the middle of step 2."""
        step, row = dataclasses.replace(self, first_position=0).locate(position)
        return step + row / self.rows_at(step)

    def sizes_before(self, position: int) -> tuple[tuple[int, int], ...]:
        """Return the sizes that begin before a position."""
        count = int(np.searchsorted(self._positions, position))
        return self.sizes[:count]

    def runs(self, start: int, stop: int | None) -> Iterator[tuple[int, int | None]]:
        """Yield (first step, step after the last) of each run of steps of one size, in order.

        Args:
            start: The first step.
            stop: The step after the last; None: endless, and so is the last run.
        """
        changes = [step for step, _ in self.sizes if step > start and (stop is None or step < stop)]
        yield from itertools.pairwise([start, *changes, stop])

    def starting_at(self, position: int) -> tuple["Schedule", int] | None:
        """Return a schedule that has a step at a position, and that step; None: there is none.

        One batch size fits any position: steps count as if all batches before had it.
        """
        if len(self.sizes) == 1:
            step, first = divmod(position, self.sizes[0][1])
            return dataclasses.replace(self, first_position=first), step
        step, row = self.locate(position)
        return None if row else (self, step)

# SPDX-License-Identifier: Apache-2.0
"""Which source each row of a run comes from, by weights that hold at every prefix.

The sources of a stage are the leaves of a binary tree, heaviest first. Of the `count` rows that
reach a node, ⌊count · share + ½⌋ go to its left part and the others to the right one, so exactly
one source gains a row at each position. Shares are fractions of 2**64 and all is computed in
integers: a count below 2**61 is exact, and the rounding of the shares moves it by far less than a
row.

Each source's number of rows differs from weight · rows by less than 2, for any number of sources:
a level of the tree adds at most ½ to its share of the difference above it, and since the parts of a
node are as equal as they can be, one that is divided further has at most ⅔ of it. So the difference
is below 1.5 where a node is divided, and below ½ + 1.5 at a source.

Holds at all times: `locate` is one to one from positions to (source, place of that source), places
of a source follow each other without a gap, and `positions_of` inverts it.
"""

import dataclasses
import functools
import itertools
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.splitmix import Uint64Array

Int32Array = npt.NDArray[np.int32]
IndexArray = npt.NDArray[np.intp]  # NumPy copies indices of other dtypes first

_HALF_BITS = np.uint64(32)
_LOW = np.uint64(2**32 - 1)
_ONE_HALF = np.uint64(2**63)  # of a share of 2**64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
    """How the rows of one stage are dealt out to its sources.

    Attributes:
        weights: One for each source, at least 0, one of them above 0; only their ratios count.

    Example:
        >>> sources, places = Weights(weights=(0.5, 0.25, 0.25)).locate(np.arange(8))
        >>> sources.tolist(), places.tolist()
        ([0, 1, 0, 2, 0, 1, 0, 2], [0, 0, 1, 0, 2, 1, 3, 1])
    """

    weights: tuple[float, ...]

    def locate(self, positions: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Return the source of each position, int32[n], and its place there, int64[n]."""
        shares, left, right, source = self._tree
        # A leaf gives no row to its left and is its own right child: all rows go down alike.
        right = np.where(source < 0, right, np.arange(len(source)))
        node = np.zeros(len(positions), np.intp)
        counts = positions.astype(np.uint64)
        for _ in range(self._depth):
            share = shares[node]
            before = _round_share(counts, share)
            # The half gains a row if one more share carries into the whole part.
            goes_left = counts * share + _ONE_HALF > ~share
            node = np.where(goes_left, left[node], right[node])
            counts = np.where(goes_left, before, counts - before)
        return source[node], counts.astype(np.int64)

    def counts_at(self, position: int) -> Int64Array:
        """Return how many rows of each source come before a position, int64[sources]."""
        shares, left, right, source = self._tree
        counts = [int(position)] * len(source)
        for node in np.flatnonzero(source < 0).tolist():  # parents stand before their children
            counts[left[node]] = counts[node] * int(shares[node]) + 2**63 >> 64
            counts[right[node]] = counts[node] - counts[left[node]]
        found = np.zeros(len(self.weights), np.int64)
        found[source[source >= 0]] = np.array(counts)[source >= 0]
        return found

    def positions_of(self, source: int, places: Int64Array) -> Int64Array:
        """Return the position of each place of a source with a weight above 0, both int64[n]."""
        shares, left, right, of_node = self._tree
        node = int(np.flatnonzero(of_node == source)[0])
        counts = places.astype(np.uint64)
        while node:
            (parent,) = np.flatnonzero((left == node) | (right == node)).tolist()
            counts = _unround_share(counts, shares[parent], is_left=bool(left[parent] == node))
            node = parent
        return counts.astype(np.int64)

    @functools.cached_property
    def _depth(self) -> int:
        """Nodes between the root and the deepest leaf, the root included."""
        _, left, right, source = self._tree
        depths = np.zeros(len(source), np.int64)
        for node in np.flatnonzero(source < 0):  # parents stand before their children
            depths[[left[node], right[node]]] = depths[node] + 1
        return int(depths.max())

    @functools.cached_property
    def _tree(self) -> tuple[Uint64Array, IndexArray, IndexArray, Int32Array]:
        """Share of the left half, left and right child, and source (-1: none) of each node."""
        by_weight = [s for s, weight in enumerate(self.weights) if weight > 0]
        by_weight.sort(key=lambda s: (-self.weights[s], s))
        exact = [Fraction(weight) for weight in self.weights]
        shares: list[int] = []
        left: list[int] = []
        right: list[int] = []
        source: list[int] = []

        def add(sources: list[int]) -> int:
            """Add the node of some sources, then those below it; return its number."""
            number = len(source)
            source.append(sources[0] if len(sources) == 1 else -1)
            for column in (shares, left, right):
                column.append(0)
            if len(sources) > 1:
                sums = list(itertools.accumulate(exact[s] for s in sources))
                cut = min(range(1, len(sources)), key=lambda c: abs(2 * sums[c - 1] - sums[-1]))
                share = round(sums[cut - 1] / sums[-1] * 2**64)
                shares[number] = min(max(share, 1), 2**64 - 1)
                left[number], right[number] = add(sources[:cut]), add(sources[cut:])
            return number

        add(by_weight)
        children = np.array([left, right], np.intp)
        return np.array(shares, np.uint64), *children, np.array(source, np.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mixture:
    """The map position → (source, place of the source), in stages; a single dataset has one source.

    Attributes:
        stages: (first position, weights from there on), in order of the position, from 0.
    """

    stages: tuple[tuple[int, Weights], ...] = ((0, Weights(weights=(1.0,))),)

    def locate(self, positions: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Return the source of each position, int32[n], and its place there, int64[n]."""
        stages = np.searchsorted(self._starts, positions, side="right") - 1
        sources = np.empty(len(positions), np.int32)
        places = np.empty(len(positions), np.int64)
        for stage in np.flatnonzero(np.bincount(stages)).tolist():  # np.unique would sort
            here = stages == stage
            start, weights = self.stages[stage]
            sources[here], within = weights.locate(positions[here] - start)
            places[here] = within + self._counts[stage][sources[here]]
        return sources, places

    def counts_at(self, position: int) -> Int64Array:
        """Return how many rows of each source come before a position, int64[sources]."""
        stage = int(np.searchsorted(self._starts, position, side="right")) - 1
        start, weights = self.stages[stage]
        before: Int64Array = self._counts[stage]
        return before + weights.counts_at(position - start)

    def positions_of(self, source: int, places: Int64Array) -> Int64Array:
        """Return the position of each place of a source, both int64[n]; -1: there is none."""
        counts = self._counts[:, source]
        stages = np.searchsorted(counts, places, side="right") - 1
        positions = np.full(len(places), -1)
        for stage in np.unique(stages).tolist():
            start, weights = self.stages[stage]
            if weights.weights[source] > 0:
                here = stages == stage
                within = weights.positions_of(source, places[here] - counts[stage])
                positions[here] = start + within
        return positions

    @functools.cached_property
    def _starts(self) -> Int64Array:
        return np.array([start for start, _ in self.stages], np.int64)

    @functools.cached_property
    def _counts(self) -> Int64Array:
        """Rows of each source before each stage, int64[stages, sources]."""
        counts = [np.zeros(len(self.stages[0][1].weights), np.int64)]
        for (start, weights), stop in zip(self.stages, self._starts[1:], strict=False):
            counts.append(counts[-1] + weights.counts_at(int(stop) - start))
        return np.array(counts)


def _round_share(counts: Uint64Array, shares: Uint64Array) -> Uint64Array:
    """Return ⌊counts · shares / 2**64 + ½⌋, exactly; counts are below 2**62."""
    count_high, count_low = counts >> _HALF_BITS, counts & _LOW
    share_high, share_low = shares >> _HALF_BITS, shares & _LOW
    # Products of 32-bit halves, as by hand; no sum here exceeds 64 bits.
    first = count_high * share_low + (count_low * share_low >> _HALF_BITS)
    second = count_low * share_high + (first & _LOW) + (_ONE_HALF >> _HALF_BITS)
    rounded: Uint64Array = count_high * share_high + (first >> _HALF_BITS) + (second >> _HALF_BITS)
    return rounded


def _unround_share(ranks: Uint64Array, share: np.uint64, *, is_left: bool) -> Uint64Array:
    """Return the count at which a half gains the row with each rank, both uint64[n]."""

    def gained(counts: Uint64Array) -> Uint64Array:
        """Return the rows of the half among the first `counts` and one more."""
        more = counts + np.uint64(1)
        to_left = _round_share(more, np.broadcast_to(share, more.shape))
        return to_left if is_left else more - to_left

    # Not 1 - share as floats, which is inexact where little is left.
    part = (int(share) if is_left else 2**64 - int(share)) / 2**64
    # An estimate, and then halving: floats are exact to 2**53 only, and shares may be tiny.
    estimate = np.minimum((ranks + 0.5) / part, 2.0**62)
    slack = 4 + estimate * 2.0**-48 + 2 / part
    low: Uint64Array = np.maximum(estimate - slack, 0).astype(np.uint64)
    high = np.minimum(estimate + slack, 2.0**62).astype(np.uint64)
    while (low < high).any():
        middle = low + (high - low) // np.uint64(2)
        enough = gained(middle) > ranks
        low = np.where(enough, low, middle + np.uint64(1))
        high = np.where(enough, middle, high)
    return low

# SPDX-License-Identifier: Apache-2.0
"""Law 8 for columns: one to one, with an inverse, whatever the shares and stages."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.planning.columns import Columns, ColumnStages

SHARES = st.floats(1e-12, 1.0).map(Fraction) | st.just(Fraction(1))


@st.composite
def column_stages(draw: st.DrawFn) -> ColumnStages:
    size = draw(st.integers(1, 200))
    starts = [0, *sorted(draw(st.sets(st.integers(1, size), max_size=3)) - {size})]
    stages = tuple((start, draw(SHARES)) for start in starts)
    return ColumnStages(size=size, count=draw(st.integers(1, 50)), stages=stages)


@given(column_stages())
def test_law_8_items_are_a_permutation_and_lead_back(columns: ColumnStages) -> None:
    places = np.arange(columns.size)
    items = columns.items_at(places)
    np.testing.assert_array_equal(np.sort(items), places)
    np.testing.assert_array_equal(columns.places_of(items), places)


@given(column_stages(), st.data())
def test_a_stage_moves_nothing_before_it(columns: ColumnStages, data: st.DataObject) -> None:
    start = data.draw(st.integers(columns.stages[-1][0] + 1, columns.size))
    later = (*columns.stages, (start, data.draw(SHARES)))
    changed = ColumnStages(size=columns.size, count=columns.count, stages=later)
    before = np.arange(start)
    np.testing.assert_array_equal(changed.items_at(before), columns.items_at(before))


def test_columns_of_the_only_source_are_those_of_the_design() -> None:
    size, count = 1003, 64
    places = np.arange(size)
    column, steps = places % count, places // count
    expected = column * (size // count) + np.minimum(column, size % count) + steps
    np.testing.assert_array_equal(Columns(size=size, count=count).items_at(places), expected)


@given(st.floats(0.01, 1.0), st.integers(1, 300))
def test_columns_of_a_share_stay_near_their_rows(share: float, count: int) -> None:
    size = 5000
    columns = Columns(size=size, count=count, share=Fraction(share))
    items = columns.items_at(np.arange(size))
    found = np.searchsorted(columns.starts, items, side="right") - 1
    rows = np.arange(size) / share % count
    away = np.abs(rows - found)
    # Within a row, and what rows have moved on against the pattern since the first place.
    assert np.minimum(away, count - away).max() < 1 + size / share / 2**16

# SPDX-License-Identifier: Apache-2.0
"""Steps of several sizes follow each other without a gap, and a position leads back to its step."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.planning.schedule import Schedule


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    starts = sorted(draw(st.sets(st.integers(1, 50), max_size=3)))
    sizes = tuple((start, draw(st.integers(1, 9))) for start in [0, *starts])
    return Schedule(sizes=sizes, first_position=draw(st.integers(0, 20)))


@given(schedules())
def test_law_8_positions_rise_by_the_rows_of_each_step_and_lead_back(schedule: Schedule) -> None:
    expected = schedule.first_position
    for step in range(60):
        assert schedule.position_of(step) == expected
        for row in range(schedule.rows_at(step)):
            assert schedule.locate(expected + row) == (step, row)
        expected += schedule.rows_at(step)
        assert schedule.steps_before(expected) == step + 1
    np.testing.assert_array_equal(
        schedule.positions_of(np.arange(60)), [schedule.position_of(step) for step in range(60)]
    )


@pytest.mark.parametrize("position", [0, 3, 8, 2**60 + 1])
def test_starting_at_one_size_fits_any_position(position: int) -> None:
    found = Schedule(sizes=((0, 8),)).starting_at(position)
    assert found is not None
    schedule, step = found
    assert schedule.position_of(step) == position


def test_starting_at_several_sizes_fits_the_borders_of_steps() -> None:
    schedule = Schedule(sizes=((0, 4), (2, 8)))
    assert schedule.starting_at(16) == (schedule, 3)
    assert schedule.starting_at(17) is None


@given(schedules(), st.integers(0, 60), st.integers(1, 30) | st.none())
def test_runs_are_the_steps_in_order_each_of_one_size(
    schedule: Schedule, start: int, count: int | None
) -> None:
    runs = list(schedule.runs(start, None if count is None else start + count))
    assert runs[0][0] == start
    assert runs[-1][1] == (None if count is None else start + count)
    assert all(stop == first for (_, stop), (first, _) in itertools.pairwise(runs))
    for first, stop in runs:
        assert len({schedule.rows_at(step) for step in range(first, stop or 100)}) == 1


def test_runs_of_no_step_is_one_empty_run() -> None:
    assert list(Schedule(sizes=((0, 4), (2, 8))).runs(2, 2)) == [(2, 2)]


def test_sizes_before_a_position_are_those_with_a_row_before_it() -> None:
    schedule = Schedule.of([(0, 4), (2, 8)])
    assert schedule.sizes_before(0) == ()
    assert schedule.sizes_before(8) == ((0, 4),)
    assert schedule.sizes_before(9) == ((0, 4), (2, 8))


def test_fraction_of_a_position_is_in_steps() -> None:
    schedule = Schedule.of([(0, 4), (2, 8)])
    assert [schedule.fraction_of(position) for position in (0, 6, 8, 12)] == [0, 1.5, 2, 2.5]

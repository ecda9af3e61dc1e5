# SPDX-License-Identifier: Apache-2.0
"""Groups cover the rows of each step, within their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.pipeline.groups import plan_group_sizes


@given(
    rows=st.integers(1, 5000),
    mean_record_bytes=st.floats(1, 1e7),
    group_size=st.none() | st.integers(1, 6000),
    row_multiple=st.integers(1, 40),
)
def test_plan_group_sizes_cover_all_rows_and_keep_the_limits(
    rows: int,
    mean_record_bytes: float,
    group_size: int | None,
    row_multiple: int,
) -> None:
    rows *= row_multiple
    sizes = plan_group_sizes(
        rows,
        mean_record_bytes,
        group_size=group_size,
        row_multiple=row_multiple,
    )
    assert 1 <= sizes.steps * sizes.group_rows <= max(group_size or 2**20, row_multiple)
    assert sizes.group_rows % row_multiple == 0
    assert sizes.steps == 1 or sizes.group_rows == rows
    assert (
        (sizes.groups_per_step - 1) * sizes.group_rows
        < rows
        <= sizes.groups_per_step * sizes.group_rows
    )
    if sizes.static_rows is not None:
        assert sizes.groups_per_step * sizes.group_rows == rows
        assert sizes.static_rows == sizes.steps * sizes.group_rows


@pytest.mark.parametrize(
    ("rows", "group_size", "group_rows", "steps"),
    [
        (64, 48, 32, 1),
        (64, 64, 64, 1),
        (60, 16, 15, 1),
        (61, 16, 16, 1),
        (4, 9, 4, 2),
        (1, 99, 1, 8),
    ],
)
def test_plan_group_sizes_are_equal_where_that_keeps_them_large(
    rows: int, group_size: int, group_rows: int, steps: int
) -> None:
    sizes = plan_group_sizes(rows, 1.0, group_size=group_size)
    assert (sizes.group_rows, sizes.steps) == (group_rows, steps)

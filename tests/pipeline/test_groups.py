# SPDX-License-Identifier: Apache-2.0
"""Groups cover the rows of each step, and hold what the plan says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import plans
from tfjax_batches.pipeline import groups
from tfjax_batches.pipeline.groups import PlannedReader, plan_group_sizes
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.seeds import derive_seeds


class FakeReader:
    """Records that are the example's index."""

    def read(self, examples: np.ndarray) -> np.ndarray:
        assert (examples >= 0).all()
        data = np.empty(len(examples), object)
        data[:] = [b"%d\0" % example for example in examples]  # binary: may end in zeros
        return data

    def mean_record_bytes(self) -> float:
        return 1.0

    def describe(self, example: int) -> str:
        return str(example)


@given(
    rows=st.integers(1, 5000),
    mean_record_bytes=st.floats(1, 1e7),
    most_rows=st.integers(1, 300),
    group_size=st.none() | st.integers(1, 6000),
    row_multiple=st.integers(1, 40),
)
def test_plan_group_sizes_cover_all_rows_and_keep_the_limits(
    rows: int,
    mean_record_bytes: float,
    most_rows: int,
    group_size: int | None,
    row_multiple: int,
) -> None:
    rows *= row_multiple
    sizes = plan_group_sizes(
        rows,
        mean_record_bytes,
        most_rows=most_rows,
        group_size=group_size,
        row_multiple=row_multiple,
    )
    assert 1 <= sizes.steps * sizes.group_rows <= max(group_size or most_rows, row_multiple)
    assert sizes.group_rows % row_multiple == 0
    assert sizes.steps == 1 or sizes.group_rows == rows
    assert (sizes.count - 1) * sizes.group_rows < rows <= sizes.count * sizes.group_rows
    if sizes.is_uniform:
        assert sizes.count * sizes.group_rows == rows


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
    sizes = plan_group_sizes(rows, 1.0, most_rows=rows, group_size=group_size)
    assert (sizes.group_rows, sizes.steps) == (group_rows, steps)


@given(plan=plans(), group_size=st.integers(1, 50), planned_rows=st.integers(1, 200))
def test_group_reader_gives_what_the_plan_says_in_any_order(
    plan: BatchPlan, group_size: int, planned_rows: int
) -> None:
    rows = np.arange(plan.global_batch_size)[1::2] if plan.global_batch_size > 1 else np.arange(1)
    sizes = plan_group_sizes(len(rows), 1.0, most_rows=len(rows), group_size=group_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_PLANNED_ROWS", planned_rows)
        patch.setattr(groups, "_KEPT_PLANS", 2)
        read = PlannedReader(plan, rows, FakeReader(), sizes, seed_places=(0, 2))
        assert plan.num_steps is not None
        firsts = range(0, plan.num_steps - sizes.steps + 1, sizes.steps)
        places = [(s, g) for s in firsts for g in range(sizes.count)]
        np.random.default_rng(0).shuffle(places)
        found = {place: read(*map(np.int64, place)) for place in places}
    for first in firsts:
        expected = [plan.plan_rows(first + later, rows) for later in range(sizes.steps)]
        parts = [found[first, group] for group in range(sizes.count)]
        records, examples, seeds = (np.concatenate(part) for part in zip(*parts, strict=True))
        np.testing.assert_array_equal(examples, np.concatenate([e.examples for e in expected]))
        epochs = np.concatenate([e.epochs for e in expected])
        np.testing.assert_array_equal(seeds, derive_seeds(plan.seed, epochs, examples, (0, 2)))
        assert records.tolist() == [b"%d\0" % max(example, 0) for example in examples]


def test_group_reader_plans_many_steps_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[range] = []
    plan_steps = BatchPlan.plan_steps

    def counted(self: BatchPlan, steps: range, rows: np.ndarray):
        calls.append(steps)
        return plan_steps(self, steps, rows)

    plan = BatchPlan(
        num_examples=1000,
        global_batch_size=4,
        shuffle="global",
        seed=0,
        num_epochs=None,
        remainder="carry",
    )
    monkeypatch.setattr(BatchPlan, "plan_steps", counted)
    rows = np.arange(4)
    read = PlannedReader(plan, rows, FakeReader(), plan_group_sizes(4, 1.0, most_rows=4))
    for step in range(1500, 2100):
        read(np.int64(step), np.int64(0))
    assert calls == [range(1024, 2048), range(2048, 3072)]

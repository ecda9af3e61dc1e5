# SPDX-License-Identifier: Apache-2.0
"""Laws 1, 2, 3 and 6 on simulated processes, and the borders of epochs."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import layouts, plans, plans_of_sizes
from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.schedule import Schedule
from tfjax_batches.planning.selection import WholeSplit
from tfjax_batches.planning.source_plan import PADDING


def make_plan(
    num_examples: int,
    global_batch_size: int,
    remainder: str,
    num_epochs: int | None = 1,
    shuffle: str = "none",
) -> BatchPlan:
    return plan_dataset(
        WholeSplit(num_in_split=num_examples),
        global_batch_size=global_batch_size,
        shuffle=Shuffle(shuffle),
        seed=0,
        num_epochs=num_epochs,
        remainder=Remainder(remainder),
    )


def whole_batch(plan: BatchPlan, step: int) -> np.ndarray:
    return plan.plan_rows(step, np.arange(plan.global_batch_size)).examples


def joined_batch(plan: BatchPlan, layout: BatchLayout, step: int) -> np.ndarray:
    """Return the global batch as all processes together make it; they must not differ."""
    joined = np.full(plan.global_batch_size, -2)
    for process_index in range(layout.process_count):
        part = plan.plan_rows(step, layout.rows(process_index))
        before = joined[part.rows]
        assert np.all((before == -2) | (before == part.examples))
        joined[part.rows] = part.examples
    return joined


@given(plans(), st.data())
def test_law_1_any_layout_gives_the_same_global_batch(plan: BatchPlan, data: st.DataObject) -> None:
    layout = data.draw(layouts(plan.global_batch_size))
    step = data.draw(st.integers(0, (plan.num_steps or 1) - 1))
    np.testing.assert_array_equal(joined_batch(plan, layout, step), whole_batch(plan, step))


@given(layouts())
def test_law_2_rows_cover_the_batch_and_groups_hold_equal_rows(layout: BatchLayout) -> None:
    rows = [layout.rows(index) for index in range(layout.process_count)]
    np.testing.assert_array_equal(
        np.unique(np.concatenate(rows)), np.arange(layout.global_batch_size)
    )
    for group in layout.replica_groups:
        for index in group:
            np.testing.assert_array_equal(rows[index], rows[group[0]])
    members = sorted(index for group in layout.replica_groups for index in group)
    assert members == list(range(layout.process_count))
    assert len({rows[group[0]].tobytes() for group in layout.replica_groups}) == len(
        layout.replica_groups
    )


@given(plans(remainder=Remainder.CARRY, num_epochs=st.none()))
def test_law_3_carry_each_epoch_is_a_permutation(plan: BatchPlan) -> None:
    steps = -(-3 * plan.num_examples // plan.global_batch_size)
    parts = [plan.plan_rows(step, np.arange(plan.global_batch_size)) for step in range(steps)]
    examples = np.concatenate([part.examples for part in parts])
    epochs = np.concatenate([part.epochs for part in parts])
    for epoch in range(3):
        np.testing.assert_array_equal(
            np.sort(examples[epochs == epoch]), np.arange(plan.num_examples)
        )


@given(plans(remainder=Remainder.DROP))
def test_law_3_drop_each_epoch_holds_all_but_the_remainder_once(plan: BatchPlan) -> None:
    for epoch in range(plan.sources[0].epochs.count or 1):
        first = epoch * plan.steps_per_epoch
        steps = range(first, first + plan.steps_per_epoch)
        examples = np.concatenate([whole_batch(plan, step) for step in steps])
        whole = plan.num_examples // plan.global_batch_size * plan.global_batch_size
        assert len(np.unique(examples)) == len(examples) == whole
        assert examples.min() >= 0


@given(plans(remainder=Remainder.PAD))
def test_law_3_pad_each_epoch_holds_every_example_once_and_masks_the_rest(plan: BatchPlan) -> None:
    for epoch in range(plan.sources[0].epochs.count or 1):
        first = epoch * plan.steps_per_epoch
        parts = [
            plan.plan_rows(step, np.arange(plan.global_batch_size))
            for step in range(first, first + plan.steps_per_epoch)
        ]
        examples = np.concatenate([part.examples for part in parts])
        mask = np.concatenate([part.mask for part in parts])
        np.testing.assert_array_equal(np.sort(examples[mask]), np.arange(plan.num_examples))
        assert np.all(examples[~mask] == PADDING)
        assert (~mask).sum() < plan.global_batch_size


@given(plans())
def test_law_6_steps_are_known_and_the_last_exists_for_all_rows(plan: BatchPlan) -> None:
    assert plan.num_steps is not None
    plan.plan_rows(plan.num_steps - 1, np.arange(plan.global_batch_size))
    with pytest.raises(IndexError, match=f"step < {plan.num_steps}"):
        plan.plan_rows(plan.num_steps, np.arange(plan.global_batch_size))


@given(plans(), st.data())
def test_examples_before_counts_the_real_rows(plan: BatchPlan, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, plan.num_steps or 0))
    real_rows = sum(int((whole_batch(plan, s) != PADDING).sum()) for s in range(step))
    assert plan.examples_before(step) == real_rows


# ---- batches that change their size


def rows_of(plan: BatchPlan, step: int) -> int:
    return plan.schedule.rows_at(step)


@given(plans_of_sizes(), st.data())
def test_laws_1_and_2_of_sizes_any_layout_gives_the_batch_of_a_step(
    plan: BatchPlan, data: st.DataObject
) -> None:
    step = data.draw(st.integers(0, 20 if plan.num_steps is None else plan.num_steps - 1))
    rows = rows_of(plan, step)
    layout = data.draw(layouts(rows))
    whole = plan.plan_rows(step, np.arange(rows))
    covered = np.zeros(rows, bool)
    for process in range(layout.process_count):
        part = plan.plan_rows(step, layout.rows(process))
        covered[part.rows] = True
        np.testing.assert_array_equal(part.examples, whole.examples[part.rows])
        np.testing.assert_array_equal(part.sources, whole.sources[part.rows])
    assert covered.all()


@given(plans_of_sizes())
def test_laws_3_and_6_of_sizes_rows_are_those_of_one_row_a_step(plan: BatchPlan) -> None:
    steps = min(30, plan.num_steps if plan.num_steps is not None else 30)
    parts = [plan.plan_rows(step, np.arange(rows_of(plan, step))) for step in range(steps)]
    count = sum(len(part.rows) for part in parts)
    alone = dataclasses.replace(plan, schedule=Schedule.of(1))
    single = alone.plan_steps(range(count), np.arange(1))
    for name in ("sources", "examples", "epochs"):
        found = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(found, [getattr(each, name)[0] for each in single])
    for step in range(steps):
        assert sum(plan.counts_before(step)) == plan.position_of(step)
    if plan.num_steps is not None:
        assert plan.num_rows == plan.position_of(plan.num_steps) + plan.left_out_at_end
        assert plan.left_out_at_end < rows_of(plan, plan.num_steps)
        with pytest.raises(IndexError, match=f"step < {plan.num_steps}"):
            plan.plan_rows(plan.num_steps, np.arange(1))


def test_steps_per_epoch_of_sizes_are_those_of_the_first_epoch() -> None:
    plan = plan_dataset(
        WholeSplit(num_in_split=23),
        global_batch_size=[(0, 2), (3, 8)],
        shuffle=Shuffle.NONE,
        seed=0,
        num_epochs=2,
        remainder=Remainder.CARRY,
    )
    assert plan.steps_per_epoch == 5  # 2, 2, 2, 8, 8
    assert (plan.num_steps, plan.left_out_at_end) == (8, 0)
    assert [rows_of(plan, step) for step in range(8)] == [2, 2, 2, *[8] * 5]


def test_plan_rows_carry_batch_spans_two_epochs() -> None:
    plan = make_plan(5, 4, "carry", num_epochs=2)
    assert plan.num_steps == 2
    assert plan.left_out_at_end == 2
    part = plan.plan_rows(1, np.arange(4))
    assert part.examples.tolist() == [4, 0, 1, 2]
    assert part.epochs.tolist() == [0, 1, 1, 1]


def test_plan_rows_small_dataset_batch_spans_many_epochs() -> None:
    plan = make_plan(2, 7, "carry", num_epochs=None, shuffle="global")
    part = plan.plan_rows(3, np.arange(7))
    assert part.epochs.tolist() == [10, 11, 11, 12, 12, 13, 13]
    assert sorted(part.examples[1:3]) == [0, 1]


def test_plan_rows_drop_loses_the_same_ids_on_any_process_count() -> None:
    plan = make_plan(11, 4, "drop", shuffle="global")
    assert plan.num_steps == 2
    assert plan.sources[0].epochs.left_out == 3
    seen = {
        count: {
            int(example)
            for step in range(2)
            for example in joined_batch(
                plan, BatchLayout.simulate({"data": 4}, "data", 4, count), step
            )
        }
        for count in (1, 2, 4)
    }
    assert seen[1] == seen[2] == seen[4]
    assert len(seen[1]) == 8


@pytest.mark.parametrize(
    ("num_examples", "real_rows"), [(1, [1]), (7, [4, 3]), (8, [4, 4]), (9, [4, 4, 1])]
)
def test_plan_rows_pad_counts_real_rows(num_examples: int, real_rows: list[int]) -> None:
    plan = make_plan(num_examples, 4, "pad")
    parts = [plan.plan_rows(step, np.arange(4)) for step in range(plan.num_steps or 0)]
    assert [int(part.mask.sum()) for part in parts] == real_rows


@pytest.mark.parametrize(
    ("remainder", "epochs"),
    [
        ("carry", [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]),
        ("drop", [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2]]),
        ("pad", [[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]),
    ],
)
def test_plan_rows_around_the_end_of_an_epoch(remainder: str, epochs: list[list[int]]) -> None:
    plan = make_plan(6, 4, remainder, num_epochs=3)
    assert [plan.plan_rows(s, np.arange(4)).epochs.tolist() for s in range(3)] == epochs


@pytest.mark.parametrize(("remainder", "num_epochs"), [("drop", None), ("drop", 3), ("carry", 2)])
def test_plan_without_a_whole_batch_is_refused(remainder: str, num_epochs: int | None) -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan(3, 8, remainder, num_epochs)
    message = str(caught.value)
    assert f"remainder='{remainder}' needs examples for one whole batch" in message
    assert "3 examples" in message
    assert "global_batch_size=8" in message
    assert "use remainder='pad'" in message


def test_names_of_policies_are_taken_for_their_members() -> None:
    plan = plan_dataset(
        WholeSplit(num_in_split=11),
        global_batch_size=4,
        shuffle="none",  # type: ignore[arg-type]
        seed=0,
        num_epochs=1,
        remainder="drop",  # type: ignore[arg-type]
    )
    assert (plan.num_steps, plan.sources[0].epochs.left_out) == (2, 3)
    assert plan.plan_rows(1, np.arange(4)).examples.tolist() == [4, 5, 6, 7]


def test_find_of_an_example_before_the_first_position_is_minus_one() -> None:
    found = make_plan(10, 4, "carry").starting_at(6)
    assert found is not None
    rest, step = found
    assert (step, rest.position_of(step)) == (1, 6)
    examples = np.array([1, 2, 6])
    steps, rows = rest.find(0, examples, np.zeros(3, np.int64))
    assert steps.tolist() == [-1, 0, 1]
    assert rows.tolist() == [-1, 0, 0]

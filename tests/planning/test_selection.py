# SPDX-License-Identifier: Apache-2.0
"""The laws of plans hold over the examples that a filter selects."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfjax_batches as tjb
from tests.strategies import layouts, plans
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.selection import FilteredSplit, WholeSplit, digest_ids
from tfjax_batches.planning.source_plan import PADDING


def selection_of(ids: list[int], num_in_split: int) -> FilteredSplit:
    found = np.array(ids, np.int64)
    return FilteredSplit(name="x", ids=found, num_in_split=num_in_split, digest=digest_ids(found))


def selecting(plan: BatchPlan, ids: list[int], num_in_split: int) -> BatchPlan:
    source = dataclasses.replace(plan.sources[0], selection=selection_of(ids, num_in_split))
    return dataclasses.replace(plan, sources=(source,))


@given(plans(max_examples=12), st.data())
def test_laws_hold_over_selected_examples(plan: BatchPlan, data: st.DataObject) -> None:
    ids = data.draw(
        st.lists(
            st.integers(0, 60), min_size=plan.num_examples, max_size=plan.num_examples, unique=True
        ).map(sorted)
    )
    layout = data.draw(layouts(plan.global_batch_size))
    selected = selecting(plan, ids, 61)
    # Counts and steps are those of a split of that many examples; each row holds another id.
    assert (selected.num_steps, selected.num_examples) == (plan.num_steps, len(ids))
    for step in range(selected.num_steps or 0):
        whole = plan.plan_rows(step, np.arange(plan.global_batch_size))
        expected = [ids[place] if place != PADDING else PADDING for place in whole.examples]
        assert selected.examples_before(step) == plan.examples_before(step)
        for process_index in range(layout.process_count):
            rows = layout.rows(process_index)
            part = selected.plan_rows(step, rows)
            np.testing.assert_array_equal(part.examples, np.array(expected)[rows])
            np.testing.assert_array_equal(part.mask, part.examples != PADDING)
            np.testing.assert_array_equal(part.epochs, whole.epochs[rows])


def test_plans_are_equal_if_name_and_ids_of_selections_are() -> None:
    plan = plan_dataset(
        WholeSplit(num_in_split=9),
        global_batch_size=2,
        shuffle=Shuffle.NONE,
        seed=0,
        num_epochs=1,
        remainder=Remainder.PAD,
    )
    assert selecting(plan, [1, 4], 9) == selecting(plan, [1, 4], 9)
    assert selecting(plan, [1, 4], 9) != selecting(plan, [1, 5], 9)
    with pytest.raises(tjb.ConfigError, match=r"2 of 9 examples \(filter x\) with num_epochs=1"):
        plan_dataset(
            selection_of([1, 4], 9),
            global_batch_size=4,
            shuffle=Shuffle.NONE,
            seed=0,
            num_epochs=1,
            remainder=Remainder.CARRY,
        )

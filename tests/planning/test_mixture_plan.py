# SPDX-License-Identifier: Apache-2.0
"""Laws 1, 2, 3, 4, 6, 8 and 10 for runs of several sources, in stages, some of them used up."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import layouts, mixture_plans
from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.mixture_plan import MixedSource, derive_seed, plan_mixture
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Shuffle
from tfjax_batches.planning.selection import WholeSplit

MOST_ROWS = 2000


def make_plan(
    sizes: dict[str, tuple[int, int | None]],
    stages: list[Any],
    exhausted: str = "stop",
    rows: int = 4,
) -> BatchPlan:
    """Return the plan of sources of (examples, max_epochs), in the order of the split."""
    sources = {
        name: MixedSource(
            selection=WholeSplit(num_in_split=size), shuffle=Shuffle.NONE, max_epochs=epochs
        )
        for name, (size, epochs) in sizes.items()
    }
    return plan_mixture(
        sources,
        stages,
        global_batch_size=rows,
        seed=0,
        exhausted=exhausted,  # type: ignore[arg-type]
    )


def all_rows(plan: BatchPlan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sources, examples and epochs of the run, or of its first rows."""
    rows = min(plan.num_rows or MOST_ROWS, MOST_ROWS)
    sources, places = plan.mixture.locate(np.arange(rows))
    examples, epochs = np.empty_like(places), np.empty_like(places)
    for number, source in enumerate(plan.sources):
        here = sources == number
        examples[here], epochs[here] = source.examples_at(places[here])
    return sources, examples, epochs


@given(mixture_plans(), st.data())
def test_laws_1_and_2_all_layouts_give_the_same_batch(plan: BatchPlan, data: st.DataObject) -> None:
    rows = plan.global_batch_size
    layout = data.draw(layouts(rows))
    last = 20 if plan.num_steps is None else min(20, plan.num_steps - 1)
    step = data.draw(st.integers(0, last))
    whole = plan.plan_rows(step, np.arange(rows))
    covered = np.zeros(rows, bool)
    for process in range(layout.process_count):
        part = plan.plan_rows(step, layout.rows(process))
        covered[part.rows] = True
        np.testing.assert_array_equal(part.examples, whole.examples[part.rows])
        np.testing.assert_array_equal(part.sources, whole.sources[part.rows])
        np.testing.assert_array_equal(part.epochs, whole.epochs[part.rows])
    assert covered.all()
    assert whole.mask.all()


@given(mixture_plans())
def test_law_3_each_epoch_of_each_source_is_a_permutation(plan: BatchPlan) -> None:
    sources, examples, epochs = all_rows(plan)
    for number, source in enumerate(plan.sources):
        of_source = epochs[sources == number]
        size = source.epochs.num_examples
        for epoch in np.unique(of_source).tolist():
            seen = np.sort(examples[(sources == number) & (epochs == epoch)])
            assert len(np.unique(seen)) == len(seen) <= size
            if epoch < of_source.max():
                np.testing.assert_array_equal(seen, np.arange(size))
        if source.epochs.count is not None:
            assert of_source.size <= source.epochs.count * size


@given(mixture_plans())
def test_law_6_the_run_ends_where_a_source_lacks_a_row_or_all_do(plan: BatchPlan) -> None:
    if plan.num_rows is None:
        assert plan.num_steps is None
        return
    counts = plan.mixture.counts_at(plan.num_rows)
    left = [(s.epochs.num_places, n) for s, n in zip(plan.sources, counts.tolist(), strict=True)]
    assert all(places is None or n <= places for places, n in left)
    assert any(places == n for places, n in left)
    assert plan.num_steps == plan.num_rows // plan.global_batch_size


@given(mixture_plans())
def test_law_8_every_row_leads_back_to_its_position(plan: BatchPlan) -> None:
    sources, examples, epochs = all_rows(plan)
    positions = np.arange(len(sources))
    for number, source in enumerate(plan.sources):
        here = sources == number
        places = source.places_of(examples[here], epochs[here])
        np.testing.assert_array_equal(plan.mixture.positions_of(number, places), positions[here])


@given(mixture_plans())
def test_law_10_counts_stay_within_two_rows_of_their_weights_in_each_stage(plan: BatchPlan) -> None:
    sources, _, _ = all_rows(plan)
    ends = [start for start, _ in plan.mixture.stages[1:]] + [len(sources)]
    for (start, weights), end in zip(plan.mixture.stages, ends, strict=True):
        within = sources[start:end]
        counts = np.cumsum(within[:, np.newaxis] == np.arange(len(plan.sources)), axis=0)
        shares = np.array(weights.weights) / sum(weights.weights)
        expected = np.arange(1, len(within) + 1)[:, np.newaxis] * shares
        assert np.abs(counts - expected).max(initial=0) < 2


def test_stages_begin_at_their_steps() -> None:
    plan = make_plan({"a": (10, None), "b": (10, None)}, [(0, {"a": 1}), (3, {"b": 2.5})])
    drawn = [set(plan.plan_rows(step, np.arange(4)).sources.tolist()) for step in range(5)]
    assert drawn == [{0}, {0}, {0}, {1}, {1}]
    # A source that pauses goes on with the place after its last one.
    again = make_plan(
        {"a": (10, None), "b": (10, None)}, [(0, {"a": 1}), (1, {"b": 1}), (2, {"a": 1})]
    )
    assert again.plan_rows(2, np.arange(4)).examples.tolist() == [4, 5, 6, 7]


def test_stop_ends_the_run_before_the_row_that_is_missing() -> None:
    plan = make_plan({"a": (6, 1), "b": (100, None)}, [(0, {"a": 1, "b": 1})])
    assert plan.num_rows == 12  # position 12 is the seventh of `a`
    assert plan.num_steps == 3


def test_redistribute_gives_the_rows_to_the_others_and_ends_with_the_last() -> None:
    stages = [(0, {"a": 2, "b": 1, "c": 1})]
    plan = make_plan({"a": (6, 1), "b": (20, 1), "c": (5, 2)}, stages, "redistribute")
    sources, examples, _ = all_rows(plan)
    assert plan.num_rows == 6 + 20 + 10
    assert np.bincount(sources).tolist() == [6, 20, 10]
    (after,) = (start for start, w in plan.mixture.stages if w.weights == (0, 1, 1))
    assert np.bincount(sources[after : after + 6], minlength=3).tolist() == [0, 3, 3]
    assert sorted(examples[sources == 1].tolist()) == list(range(20))


def test_redistribute_leaves_a_used_up_source_out_of_later_stages() -> None:
    stages = [(0, {"a": 1}), (2, {"a": 1, "b": 3})]
    plan = make_plan({"a": (8, 1), "b": (9, None)}, stages, "redistribute")
    assert plan.num_rows is None
    assert [w.weights for _, w in plan.mixture.stages] == [(1, 0), (0, 3)]
    assert make_plan({"a": (8, 1), "b": (9, None)}, stages, "stop").num_rows == 10


@pytest.mark.parametrize("exhausted", ["stop", "redistribute"])
def test_a_source_of_more_rows_than_positions_is_endless(exhausted: str) -> None:
    sizes: dict[str, tuple[int, int | None]] = {"a": (2**40, 2**30), "b": (9, None)}
    plan = make_plan(sizes, [(0, {"a": 1, "b": 1e-6})], exhausted)
    assert plan.num_rows is None
    assert set(plan.plan_rows(2**58, np.arange(4)).sources.tolist()) <= {0, 1}


def test_a_run_without_a_step_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan({"a": (3, 1), "b": (9, None)}, [(0, {"a": 1})])
    for part in ("ends after 3 rows", "global_batch_size=4", "max_epochs"):
        assert part in str(caught.value)


def test_redistribute_ends_where_no_source_of_the_stage_is_left() -> None:
    sizes: dict[str, tuple[int, int | None]] = {"a": (8, 1), "b": (9, None)}
    assert make_plan(sizes, [(0, {"a": 1}), (3, {"b": 1})], "redistribute").num_rows == 8


def test_seeds_of_sources_depend_on_seed_and_name_alone() -> None:
    seeds = {derive_seed(s, n) for s, n in itertools.product(range(5), ("a", "b", "web", ""))}
    assert len(seeds) == 20
    assert derive_seed(0, "web") == 11098689096443895157  # runs resume by it


@given(mixture_plans(), st.data())
def test_plan_that_starts_at_a_position_has_the_rows_of_the_whole(
    plan: BatchPlan, data: st.DataObject
) -> None:
    """Law 4: under CARRY a run goes on from any position, also with another batch size."""
    sources, examples, _ = all_rows(plan)
    position = data.draw(st.integers(0, len(sources)))
    found = plan.starting_at(position)
    assert found is not None
    rest, step = found
    last = min(position + plan.global_batch_size, len(sources)) - position
    if rest.num_steps is None or step < rest.num_steps:
        part = rest.plan_rows(step, np.arange(last))
        np.testing.assert_array_equal(part.sources, sources[position : position + last])
        np.testing.assert_array_equal(part.examples, examples[position : position + last])


@given(mixture_plans(), st.data())
def test_plan_rows_are_those_of_each_source_by_itself(plan: BatchPlan, data: st.DataObject) -> None:
    sources, examples, epochs = all_rows(plan)
    last = len(sources) // plan.global_batch_size - 1
    step = data.draw(st.integers(0, last))
    found = plan.plan_rows(step, np.arange(plan.global_batch_size))
    here = slice(step * plan.global_batch_size, (step + 1) * plan.global_batch_size)
    np.testing.assert_array_equal(found.sources, sources[here])
    np.testing.assert_array_equal(found.examples, examples[here])
    np.testing.assert_array_equal(found.epochs, epochs[here])

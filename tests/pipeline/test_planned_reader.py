# SPDX-License-Identifier: Apache-2.0
"""Groups hold what the plan says, in whatever order they are asked for."""

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import mixture_plans, plans
from tfjax_batches.pipeline import planned_reader
from tfjax_batches.pipeline.groups import plan_group_sizes
from tfjax_batches.pipeline.planned_reader import PlannedReader
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import BatchPlan, StepPlan
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.seeds import derive_seeds
from tfjax_batches.planning.selection import WholeSplit


class FakeReader:
    """Records that are the example's index."""

    def open(self) -> None:
        pass

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        assert (examples >= 0).all()
        data = np.empty(len(examples), object)
        data[:] = [b"%d\0" % example for example in examples]  # binary: may end in zeros
        return data

    def reads_ranges(self) -> bool:
        return False

    def mean_record_bytes(self) -> float:
        return 1.0

    def describe(self, example: int) -> str:
        return str(example)

    def index_location(self) -> str:
        return "memory"


@given(plan=plans(), group_size=st.integers(1, 50), planned_rows=st.integers(1, 200))
def test_planned_reader_gives_what_the_plan_says_in_any_order(
    plan: BatchPlan, group_size: int, planned_rows: int
) -> None:
    rows = np.arange(plan.global_batch_size)[1::2] if plan.global_batch_size > 1 else np.arange(1)
    sizes = plan_group_sizes(len(rows), 1.0, group_size=group_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned_reader, "_PLANNED_ROWS", planned_rows)
        patch.setattr(planned_reader, "_KEPT_PLANS", 2)
        read = PlannedReader(plan, rows, [FakeReader()], sizes, np.zeros(1, int), [(0, 2)])
        assert plan.num_steps is not None
        firsts = range(0, plan.num_steps - sizes.steps + 1, sizes.steps)
        places = [(s, g) for s in firsts for g in range(sizes.groups_per_step)]
        np.random.default_rng(0).shuffle(places)
        found = {place: read(*map(np.int64, place)) for place in places}
    for first in firsts:
        expected = [plan.plan_rows(first + later, rows) for later in range(sizes.steps)]
        parts = [found[first, group] for group in range(sizes.groups_per_step)]
        examples, sources, records, seeds = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        np.testing.assert_array_equal(examples, np.concatenate([e.examples for e in expected]))
        epochs = np.concatenate([e.epochs for e in expected])
        assert not sources.any()
        np.testing.assert_array_equal(
            seeds, derive_seeds(plan.sources[0].seed, epochs, examples, (0, 2))
        )
        assert records.tolist() == [b"%d\0" % max(example, 0) for example in examples]


@settings(max_examples=20)
@given(plan=mixture_plans(), group_size=st.integers(1, 50), data=st.data())
def test_planned_reader_gives_each_function_the_rows_of_its_sources(
    plan: BatchPlan, group_size: int, data: st.DataObject
) -> None:
    rows = np.arange(plan.global_batch_size)
    sizes = dataclasses.replace(plan_group_sizes(len(rows), 1.0, group_size=group_size), steps=1)
    count = len(plan.sources)
    places = [data.draw(st.sampled_from([(), (0, 2)])) for _ in range(2)]
    function_of = np.array(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    read = PlannedReader(plan, rows, [FakeReader()] * count, sizes, function_of, places)
    parts = [read(np.int64(0), np.int64(part)) for part in range(sizes.groups_per_step)]
    examples, sources, *of_functions = (np.concatenate(part) for part in zip(*parts, strict=True))
    expected = plan.plan_rows(0, rows)
    np.testing.assert_array_equal(examples, expected.examples)
    np.testing.assert_array_equal(sources, expected.sources)
    pairs = zip(of_functions[::2], of_functions[1::2], strict=True)
    for function, (records, seeds) in enumerate(pairs):
        (here,) = np.nonzero(function_of[sources] == function)
        assert records.tolist() == [b"%d\0" % example for example in examples[here]]
        for row, seed in zip(here, seeds, strict=True):
            own, epoch = plan.sources[sources[row]].seed, expected.epochs[[row]]
            [expected_seed] = derive_seeds(own, epoch, examples[[row]], places[function])
            np.testing.assert_array_equal(seed, expected_seed)


def test_planned_reader_plans_many_steps_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[range] = []
    plan_steps = BatchPlan.plan_steps

    def counted(self: BatchPlan, steps: range, rows: np.ndarray) -> list[StepPlan]:
        calls.append(steps)
        return plan_steps(self, steps, rows)

    plan = plan_dataset(
        WholeSplit(num_in_split=1000),
        global_batch_size=4,
        shuffle=Shuffle.GLOBAL,
        seed=0,
        num_epochs=None,
        remainder=Remainder.CARRY,
    )
    monkeypatch.setattr(BatchPlan, "plan_steps", counted)
    rows = np.arange(4)
    read = PlannedReader(
        plan, rows, [FakeReader()], plan_group_sizes(4, 1.0), np.zeros(1, int), [()]
    )
    for step in range(1500, 2100):
        read(np.int64(step), np.int64(0))
    assert calls == [range(1024, 2048), range(2048, 3072)]

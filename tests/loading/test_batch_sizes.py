# SPDX-License-Identifier: Apache-2.0
"""Runs whose batches change their size at some steps: rows, shapes, errors and restores."""

import json
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tests.made_datasets import number_example
from tests.pipeline.test_single_steps import assert_steps_are_those_of_the_dataset
from tfjax_batches.pipeline.group_function import GroupFunction

# 23 examples an epoch. The last size is the first again.
SIZES = [(0, 8), (2, 12), (5, 4), (9, 8)]


def build(folder: str, **fields: Any) -> tjb.BatchLoader:
    given = {"global_batch_size": SIZES, "num_epochs": 5, "with_ids": True}
    return tjb.build(folder, **{**given, **fields})


def mixture(folder: str, **fields: Any) -> tjb.MixtureConfig:
    sources = {
        "big": tjb.Source(dataset=folder),
        "small": tjb.Source(dataset=folder, split="test[:6]", max_epochs=5),
    }
    given: dict[str, Any] = {"sources": sources, "global_batch_size": SIZES, "with_ids": True}
    stages = [(0, {"big": 1}), (3, {"big": 2, "small": 1})]
    return tjb.MixtureConfig(**{**given, "weights": stages, **fields})


def test_batches_have_the_rows_of_the_plan_and_the_shapes_of_their_step(
    numbers_folder: str,
) -> None:
    loader = build(numbers_folder)
    assert loader.num_steps == 14  # 2 of 8 rows, 3 of 12, 4 of 4, 5 of 8 = 108 of 115
    count = 0
    with iter(loader) as batches:
        for step, batch in enumerate(batches):
            spec = loader.element_spec_at(step)
            assert jax.tree.map(lambda x: (x.shape, x.dtype, x.sharding), batch) == jax.tree.map(
                lambda x: (x.shape, x.dtype, x.sharding), spec
            )
            plan = loader.plan_step(step)
            assert len(plan.rows) == batch["_id"].shape[0] == loader.plan.schedule.rows_at(step)
            assert np.asarray(batch["_id"]).tolist() == plan.examples.tolist()
            for vector, index in zip(np.asarray(batch["vector"]), plan.examples, strict=True):
                np.testing.assert_array_equal(vector, number_example(int(index))["vector"])
            count += 1
    assert count == 14
    assert loader.element_spec["_id"].shape == (8,)
    assert batches.stats.examples == 108


def test_specs_and_layouts_of_steps_that_do_not_exist_are_refused(numbers_folder: str) -> None:
    loader = build(numbers_folder)
    for step in (-1, loader.num_steps or 2**61):
        for ask in (loader.element_spec_at, loader.layout_at):
            with pytest.raises(IndexError, match=f"got {step}"):
                ask(step)


def test_rows_are_those_of_batches_of_one_size(numbers_folder: str) -> None:
    def ids(loader: tjb.BatchLoader) -> list[int]:
        with loader.host_batches() as batches:
            return [n for batch in batches for n in batch["_id"].tolist()]

    assert ids(build(numbers_folder)) == ids(build(numbers_folder, global_batch_size=4))[:108]


@pytest.mark.parametrize("group_size", [None, 5, 3])
def test_steps_made_alone_are_those_of_the_dataset(
    numbers_folder: str, group_size: int | None
) -> None:
    assert_steps_are_those_of_the_dataset(build(numbers_folder, group_size=group_size).pipeline)
    sizes = [*SIZES[:2], (4, 16)]  # 8 + 8 + 12 + 12 + 16 + …
    config = mixture(numbers_folder, group_size=group_size, global_batch_size=sizes)
    assert_steps_are_those_of_the_dataset(tjb.build(config).pipeline)


@pytest.mark.parametrize("start", [0, 1, 2, 4, 5, 9, 13, 14])
def test_host_batches_and_dataset_begin_at_any_step(numbers_folder: str, start: int) -> None:
    loader = build(numbers_folder, features=("number",), num_parallel_calls=2)
    expected = [loader.plan_step(step).examples.tolist() for step in range(start, 14)]
    with loader.host_batches(start) as batches:
        assert [batch["_id"].tolist() for batch in batches] == expected
    dataset = loader.dataset(start).as_numpy_iterator()
    assert [batch["_id"].tolist() for batch in dataset] == expected


def test_elements_of_several_steps_end_at_a_change(
    numbers_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfjax_batches.pipeline.host_batches._SECONDS_ALONE", 0.0)
    loader = build(numbers_folder, global_batch_size=[(0, 4), (7, 8)])
    assert loader.pipeline.group_sizes_at(0).steps > 1
    with loader.host_batches() as batches:
        for step, batch in enumerate(batches):
            assert batch["_id"].tolist() == loader.plan_step(step).examples.tolist()


def test_sizes_are_traced_when_they_are_near(
    numbers_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfjax_batches.pipeline.host_batches._SECONDS_ALONE", 0.0)
    traced: list[int] = []
    trace = GroupFunction.trace

    def note(self: GroupFunction, rows: Any) -> Any:
        traced.append(rows)
        return trace(self, rows)

    monkeypatch.setattr(GroupFunction, "trace", note)
    sizes = [(step, 4 * (step + 1)) for step in range(6)]
    with build(numbers_folder, global_batch_size=sizes).host_batches() as batches:
        next(batches)
        assert traced == [4, 8]
        next(batches)
        assert traced == [4, 8]
        next(batches)
        assert traced == [4, 8, 12, 16]


def test_law_1_processes_change_no_row(numbers_folder: str) -> None:
    config = mixture(numbers_folder)
    with tjb.build(config).host_batches() as batches:
        whole = [next(batches) for _ in range(11)]
    for owners in ([0, 0, 1, 1], [1, 0, 0, 1]):
        layout = tjb.BatchLayout.simulate({"data": 4}, "data", 8, np.array(owners))
        for process in range(2):
            loader = tjb.dry_run(config, layout, process_index=process)
            assert loader.layout == layout
            with loader.host_batches() as batches:
                for step, expected in enumerate(whole):
                    rows = loader.layout_at(step).rows(process)
                    assert rows.tolist() == loader.plan_step(step).rows.tolist()
                    for name, values in next(batches).items():
                        if name != "nested":
                            np.testing.assert_array_equal(values, expected[name][rows])


def test_counts_of_a_mixture_follow_the_sizes(numbers_folder: str) -> None:
    loader = tjb.build(mixture(numbers_folder))
    assert loader.counts_at(3) == {"big": 8 + 8 + 12, "small": 0}
    for step in range(12):
        assert sum(loader.counts_at(step).values()) == loader.plan.position_of(step)


def test_a_size_that_the_mesh_cannot_hold_is_named_by_its_step(numbers_folder: str) -> None:
    with pytest.raises(tjb.LayoutError, match=r"=10\. .* is 8 or 12\. .* size from step 3 on\."):
        build(numbers_folder, global_batch_size=[(0, 8), (3, 10)])
    layout = tjb.BatchLayout.simulate({"data": 4}, "data", 8, 2)
    with pytest.raises(tjb.LayoutError, match="the batch size from step 3 on"):
        tjb.dry_run(numbers_folder, layout, global_batch_size=[(0, 8), (3, 10)])
    with pytest.raises(tjb.ConfigError, match=r"batch size of its layout, 8; got .*\[\(0, 4\)"):
        tjb.dry_run(numbers_folder, layout, global_batch_size=[(0, 4), (3, 8)])


def test_rows_that_a_transform_mixes_are_checked_for_each_size(numbers_folder: str) -> None:
    pairs = tjb.MapBatches(lambda batch: batch, row_multiple=2, name="pairs")
    sizes = [(0, 8), (2, 12)]  # on four devices: 2 rows each, then 3
    layout = tjb.BatchLayout.simulate({"data": 4}, "data", 8, 4)
    with pytest.raises(tjb.LayoutError, match=r"pairs mixes 2 .* size from step 2 on"):
        tjb.dry_run(numbers_folder, layout, transforms=[pairs], global_batch_size=sizes)


def test_describe_tells_where_shapes_change(numbers_folder: str) -> None:
    for loader in (build(numbers_folder), tjb.build(mixture(numbers_folder))):
        lines = [line.split() for line in str(loader.describe()).splitlines()]
        start = lines.index(
            "shapes from step rows of a batch of them on process 0".split()  # noqa: SIM905
        )
        cells = [[str(step), str(rows), str(rows)] for step, rows in SIZES]
        assert [line for line in lines[start:] if line in cells] == cells
    assert "shapes from step" not in str(build(numbers_folder, global_batch_size=8).describe())


def test_describe_tells_the_memory_of_the_largest_batches(numbers_folder: str) -> None:
    def memory(sizes: Any) -> list[list[str]]:
        lines = str(build(numbers_folder, global_batch_size=sizes).describe()).splitlines()
        return [line.removeprefix("  largest").split() for line in lines[-2:]]

    assert memory(SIZES) == memory(12)
    assert memory(12)[0][0] == "step"


def test_warnings_offer_only_remainders_that_take_the_sizes(
    numbers_folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    for sizes, is_offered in ((8, True), (SIZES, False), (32, True), ([(0, 32), (2, 8)], False)):
        caplog.clear()
        build(numbers_folder, global_batch_size=sizes)
        assert "do not fill a batch of" in caplog.text
        assert ("steps_per_epoch is 0" in caplog.text) == (sizes not in (8, SIZES))
        assert ("remainder='pad'" in caplog.text) == is_offered
    with pytest.raises(tjb.ConfigError, match=r"Lower global_batch_size\.$"):
        build(numbers_folder, global_batch_size=[(0, 32), (2, 8)], num_epochs=1)


def test_explain_finds_the_example_after_a_change(numbers_folder: str) -> None:
    def refuse(example: dict[str, Any]) -> dict[str, Any]:
        tf.debugging.assert_none_equal(example["number"], tf.constant(17, tf.int64))
        return example

    loader = build(numbers_folder, shuffle="none", transforms=[tjb.MapExamples(refuse)])
    with iter(loader) as batches:
        next(batches)
        next(batches)
        with pytest.raises(tjb.TransformError, match=r"fails on example 17.*\(Step 2 on"):
            next(batches)


# ---- restore


def tail(batches: Any) -> list[list[int]]:
    with batches:
        return [np.asarray(batch["_id"]).tolist() for batch in batches]


def states_of(loader: tjb.BatchLoader) -> list[Any]:
    with iter(loader) as batches:
        states = [batches.get_state()]
        for _ in batches:
            states.append(json.loads(json.dumps(batches.get_state())))
    return states


@pytest.mark.parametrize("kind", ["dataset", "mixture"])
def test_restore_at_every_step_gives_the_tail(numbers_folder: str, kind: str) -> None:
    def make() -> tjb.BatchLoader:
        return build(numbers_folder) if kind == "dataset" else tjb.build(mixture(numbers_folder))

    loader = make()
    whole, states = tail(iter(loader)), states_of(loader)
    assert len(states) == len(whole) + 1 > 10
    for step, state in enumerate(states):
        assert len(json.dumps(state)) < 2048
        with make().restore(state) as batches:
            assert batches.step == step
            assert batches.get_state() == state
            assert tail(batches) == whole[step:]


def test_restore_takes_other_sizes_in_the_future(numbers_folder: str) -> None:
    loader = build(numbers_folder)
    whole, state = tail(iter(loader)), states_of(loader)[4]
    other = build(numbers_folder, global_batch_size=[*SIZES[:2], (4, 4), (6, 16)])
    found = tail(other.restore(state))
    assert [len(ids) for ids in found[:4]] == [4, 4, 16, 16]
    joined = [n for ids in whole[4:] for n in ids]
    assert [n for ids in found for n in ids][: len(joined)] == joined[:115]


def test_restore_refuses_other_sizes_in_the_past_and_names_the_step(numbers_folder: str) -> None:
    state = states_of(build(numbers_folder))[4]
    for sizes, step in (
        ([(0, 8), (3, 12)], 2),
        ([(0, 8), (2, 16)], 2),
        ([(0, 4), (2, 12)], 0),
        ([(0, 8), (2, 12), (3, 4)], 3),
        (8, 2),
    ):
        with pytest.raises(tjb.StateError, match=f"set the size of step {step} back: only"):
            build(numbers_folder, global_batch_size=sizes).restore(state)


def test_restore_of_a_run_of_one_size(numbers_folder: str) -> None:
    single = build(numbers_folder, global_batch_size=8)
    state = states_of(single)[3]
    # It may go on in sizes by step whose past it has, or in any one size.
    grown = build(numbers_folder, global_batch_size=[(0, 8), (4, 16)]).restore(state)
    assert [len(ids) for ids in tail(grown)[:2]] == [8, 16]
    assert len(tail(build(numbers_folder, global_batch_size=4).restore(state))[0]) == 4
    with pytest.raises(tjb.StateError, match="set the size of step 0 back"):
        build(numbers_folder, global_batch_size=[(0, 4), (6, 16)]).restore(state)
    # One that began in another size has no step at which the sizes change.
    moved = build(numbers_folder, global_batch_size=4).restore({**state, "position": 12})
    next(moved)
    moved.close()
    wide = build(numbers_folder, global_batch_size=8).restore(moved.get_state() | {"position": 12})
    next(wide)
    wide.close()
    with pytest.raises(tjb.StateError, match=r"20 begins no step of global_batch_size=\[\(0, 8"):
        build(numbers_folder, global_batch_size=[(0, 8), (4, 16)]).restore(wide.get_state())

# SPDX-License-Identifier: Apache-2.0
"""Restoring real batches: from every step, after prefetching, by another batch size."""

import itertools
import json
import logging
import threading
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tests.made_datasets import with_reader
from tfjax_batches.loading import open_source
from tfjax_batches.pipeline.host_batches import HostBatches
from tfjax_batches.pipeline.host_pipeline import HostPipeline
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.preprocess import registry
from tfjax_batches.preprocess.ops import op_table
from tfjax_batches.reading.formats import RecordReader

# Two epochs of 23 examples.
KINDS = pytest.mark.parametrize(
    "fields",
    [
        {"remainder": "carry", "prefetch_depth": 4},
        {"remainder": "drop", "prefetch_depth": 1},
        {"remainder": "pad", "prefetch_depth": 0, "shuffle": "none"},
    ],
)


def build(folder: str, **fields: Any) -> tjb.BatchLoader:
    return tjb.build(
        folder, **{"global_batch_size": 8, "num_epochs": 2, "with_ids": True, **fields}
    )


def as_numpy(batch: dict[str, Any]) -> dict[str, Any]:
    arrays: dict[str, Any] = jax.tree.map(np.asarray, batch)
    return arrays


@KINDS
def test_restore_at_every_step_gives_the_tail(numbers_folder: str, fields: dict[str, Any]) -> None:
    loader = build(numbers_folder, **fields)
    whole, states = [], []
    with iter(loader) as batches:
        states.append(batches.get_state())
        for batch in batches:
            whole.append(as_numpy(batch))
            states.append(json.loads(json.dumps(batches.get_state())))
    for step, state in enumerate(states):
        assert len(json.dumps(state)) < 2048
        assert state["position"] == 8 * step
        with build(numbers_folder, **fields).restore(state) as batches:
            assert batches.step == step
            for batch, expected in itertools.zip_longest(batches, whole[step:]):
                jax.tree.map(np.testing.assert_array_equal, as_numpy(batch), expected)
            assert batches.get_state() == states[-1]


def test_restore_on_another_mesh_and_device_order(numbers_folder: str) -> None:
    loader = build(numbers_folder)
    with iter(loader) as batches:
        next(batches)
        state = batches.get_state()
        expected = [np.asarray(batch["_id"]) for batch in batches]
    mesh = Mesh(np.array(jax.devices())[[3, 1, 0, 2]].reshape(1, 4), ("data", "model"))
    other = build(
        numbers_folder,
        sharding=NamedSharding(mesh, PartitionSpec("model")),
        prefetch_depth=0,
        num_parallel_calls=1,
    )
    with other.restore(state) as batches:
        np.testing.assert_array_equal([batch["_id"] for batch in batches], expected)


def test_restore_under_carry_with_another_batch_size(numbers_folder: str) -> None:
    with iter(build(numbers_folder)) as batches:
        ids = np.concatenate([np.asarray(next(batches)["_id"]) for _ in range(2)])
        state = batches.get_state()
        tail = np.concatenate([ids, *[np.asarray(batch["_id"]) for batch in batches]])[16:]
    with build(numbers_folder, global_batch_size=12).restore(state) as batches:
        assert batches.step == 1  # 16 rows are one batch of 12, and 4
        found = np.concatenate([np.asarray(batch["_id"]) for batch in batches])
        assert batches.get_state()["position"] == 16 + 24
        assert batches.stats.examples == 24
    assert len(found) == 24  # of the 30 rows that are left
    np.testing.assert_array_equal(found, tail[:24])


def test_restore_of_a_restored_state_with_a_third_batch_size(numbers_folder: str) -> None:
    whole = [np.asarray(batch["_id"]) for batch in iter(build(numbers_folder, global_batch_size=4))]
    order = np.concatenate(whole)
    state, position = None, 0
    for size in (8, 12, 4):
        loader = build(numbers_folder, global_batch_size=size)
        with loader.restore(state) if state else iter(loader) as batches:
            ids = np.asarray(next(batches)["_id"])
            state = batches.get_state()
        np.testing.assert_array_equal(ids, order[position : position + size])
        position += size
        assert state["position"] == position


def test_set_state_goes_back_and_forth_and_reopens(numbers_folder: str) -> None:
    batches = iter(build(numbers_folder))
    first = batches.get_state()
    whole = [np.asarray(batch["_id"]) for batch in batches]
    batches.set_state(first)
    np.testing.assert_array_equal(next(batches)["_id"], whole[0])
    second = batches.get_state()
    batches.close()
    batches.set_state(second)
    np.testing.assert_array_equal([batch["_id"] for batch in batches], whole[1:])


def test_set_state_closes_before_it_opens(
    numbers_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two buffers of batches, and twice the threads, would be there at once."""
    with iter(build(numbers_folder)) as batches:
        next(batches)
        state = batches.get_state()
        alive: list[str] = []
        host_batches = HostPipeline.host_batches

        def noted(self: HostPipeline, start_step: int) -> HostBatches:
            alive.extend(t.name for t in threading.enumerate() if "prefetch" in t.name)
            return host_batches(self, start_step)

        monkeypatch.setattr(HostPipeline, "host_batches", noted)
        batches.set_state(state)
        assert alive == []
        assert batches.step == 1


def test_set_state_that_is_refused_changes_nothing(numbers_folder: str) -> None:
    with iter(build(numbers_folder)) as batches:
        next(batches)
        state = batches.get_state()
        for bad in ({}, {**state, "version": 99}, {**state, "position": 10**6}):
            with pytest.raises(tjb.StateError):
                batches.set_state(bad)
        assert batches.get_state() == state
        assert batches.step == 1
        assert len(list(batches)) == 4


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"seed": 1}, "seed: saved 0, now 1"),
        ({"split": "train[:20]"}, 'examples: saved ["train[0:23]"], now ["train[0:20]"]'),
        ({"features": ("label",)}, 'now ["label"]'),
        ({"split": "test"}, 'now ["test[0:23]"]'),
    ],
)
def test_restore_of_other_rows_is_refused(
    numbers_folder: str, fields: dict[str, Any], text: str
) -> None:
    with iter(build(numbers_folder)) as batches:
        state = batches.get_state()
    with pytest.raises(tjb.StateError) as caught:
        build(numbers_folder, **fields).restore(state)
    assert text in str(caught.value)


def test_restore_of_the_same_rows_said_otherwise_goes_on(numbers_folder: str) -> None:
    with iter(build(numbers_folder, split="train[:100%]")) as batches:
        state = batches.get_state()
    build(numbers_folder, split="train", num_epochs=None, with_ids=False).restore(state).close()


class CountingReader:
    """Counts the records that are read."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self.count = 0

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        self.count += len(examples)
        return self._reader.read(examples)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


@pytest.mark.parametrize("step", [10, 10**6])
def test_restore_reads_no_record_before_its_position(numbers_folder: str, step: int) -> None:
    # Left to itself the loader reads several steps of so few bytes in one call.
    loader = build(
        numbers_folder, num_epochs=None, prefetch_depth=0, num_parallel_calls=1, group_size=8
    )
    counting = CountingReader(loader.pipeline.readers[0])
    loader = with_reader(loader, counting)
    with iter(loader) as batches:
        state = {**batches.get_state(), "position": 8 * step}
    counting.count = 0
    with loader.restore(state) as batches:
        np.testing.assert_array_equal(next(batches)["_id"], loader.plan_step(step).examples)
    # The batch itself, and what tf.data has under way: one in its prefetch, one in its map.
    assert 8 <= counting.count <= 4 * 8


def test_restore_tells_of_another_batch_size_and_of_no_other(
    numbers_folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with iter(build(numbers_folder, global_batch_size=4)) as batches:
        next(batches)
        next(batches)
        state = batches.get_state()
        with caplog.at_level(logging.INFO):
            batches.set_state(state)
    assert "global_batch_size" not in caplog.text
    with caplog.at_level(logging.INFO):
        build(numbers_folder, global_batch_size=8).restore(state).close()
    assert "global_batch_size was 4 and is 8; the next step is 1" in caplog.text


def test_restore_finds_a_registered_op_whose_body_changed_and_no_other_spelling(
    numbers_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(op_table, "OPS", ops := dict(op_table.OPS))
    monkeypatch.setattr(registry, "OPS", ops)

    def register(factor: int) -> None:
        def scaled(by: int = 1) -> tjb.MapBatches:
            return tjb.MapBatches(lambda b: {**b, "number": b["number"] * factor * by})

        tjb.register_op(scaled, name="scaled_for_restore")

    register(2)
    with iter(build(numbers_folder, preprocess="scaled_for_restore(by=1)")) as batches:
        state = batches.get_state()
    build(numbers_folder, preprocess=" scaled_for_restore( 1 )").restore(state).close()
    with pytest.raises(tjb.StateError, match="ops: saved"):
        build(numbers_folder, preprocess="scaled_for_restore(2)").restore(state)
    register(3)
    with pytest.raises(tjb.StateError, match="graphs: saved"):
        build(numbers_folder, preprocess="scaled_for_restore(1)").restore(state)


def test_restore_finds_ops_of_the_library_that_give_other_values(
    numbers_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with iter(build(numbers_folder, preprocess="cast('float32', 'number')")) as batches:
        state = batches.get_state()
    with iter(build(numbers_folder)) as batches:
        state_without_ops = batches.get_state()
    monkeypatch.setattr(open_source, "OPS_VERSION", registry.OPS_VERSION + 1)
    build(numbers_folder).restore(state_without_ops).close()
    with pytest.raises(tjb.StateError, match="ops_version: saved 1, now 2; use the release"):
        build(numbers_folder, preprocess="cast('float32', 'number')").restore(state)

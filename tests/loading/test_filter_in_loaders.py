# SPDX-License-Identifier: Apache-2.0
"""Loaders with a filter: counts, evaluation, resuming and padding are exact."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tests.made_datasets import number_example
from tfjax_batches.planning.selection import digest_ids

THIRDS = tjb.FilterExamples(
    lambda number: (number % 3 == 0) | (number < 2), features=("number",), name="thirds"
)
SELECTED = [number for number in range(23) if number % 3 == 0 or number < 2]


@pytest.fixture(autouse=True)
def _own_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("global_batch_size", [4, 12])
def test_evaluation_holds_each_selected_example_once(
    numbers_folder: str, global_batch_size: int
) -> None:
    loader = tjb.build(
        numbers_folder,
        global_batch_size=global_batch_size,
        num_epochs=1,
        remainder="pad",
        with_ids=True,
        filter=THIRDS,
    )
    assert loader.num_examples == len(SELECTED) == 9
    assert len(loader) == -(-9 // global_batch_size)
    found = []
    with iter(loader) as batches:
        for batch in batches:
            ids, vectors = tjb.gather_examples(batch, batch["vector"])
            for example_id, vector in zip(ids.tolist(), vectors, strict=True):
                np.testing.assert_array_equal(vector, number_example(example_id)["vector"])
            padding = ~np.asarray(batch["_mask"])
            assert not np.asarray(batch["number"])[padding].any()
            assert (np.asarray(batch["_id"])[padding] == -1).all()
            found += ids.tolist()
        assert batches.stats.examples == 9
    assert sorted(found) == SELECTED


@pytest.mark.parametrize("remainder", ["carry", "drop", "pad"])
def test_restore_at_every_step_continues_exactly(numbers_folder: str, remainder: str) -> None:
    loader = tjb.build(
        numbers_folder,
        global_batch_size=4,
        num_epochs=3,
        remainder=remainder,
        with_ids=True,
        filter=THIRDS,
    )
    with iter(loader) as batches:
        states, ids = [batches.get_state()], []
        for batch in batches:
            ids.append(np.asarray(batch["_id"]).tolist())
            states.append(batches.get_state())
    assert len(ids) == len(loader)
    for step, state in enumerate(states):
        with loader.restore(json.loads(json.dumps(state))) as rest:
            assert [np.asarray(batch["_id"]).tolist() for batch in rest] == ids[step:]


def test_restore_refuses_the_state_of_another_selection(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=4, filter=THIRDS)
    with iter(loader) as batches:
        state = batches.get_state()
    assert state["fingerprint"]["filter"] == ["thirds", digest_ids(np.array(SELECTED))]
    without = tjb.build(numbers_folder, global_batch_size=4)
    with pytest.raises(
        tjb.StateError, match=r'filter: saved \["thirds", .*, now nothing; give build'
    ):
        without.restore(state)
    # As many examples, but others.
    shifted = tjb.FilterExamples(
        lambda number: (number % 3 == 1) | (number == 2), features=("number",), name="thirds"
    )
    other = tjb.build(numbers_folder, global_batch_size=4, filter=shifted)
    assert other.num_examples == 9
    with pytest.raises(tjb.StateError, match="filter: saved") as caught:
        other.restore(state)
    assert "num_examples" not in str(caught.value)
    assert len(json.dumps(state)) < 2048


def test_transforms_see_selected_examples_only(numbers_folder: str) -> None:
    """Padding rows too: a transform need not accept the examples that the filter leaves out."""

    def refuse_small(example: dict[str, Any]) -> dict[str, Any]:
        with tf.control_dependencies([tf.debugging.assert_greater(example["number"], np.int64(4))]):
            return {**example, "number": example["number"] * 2}

    above_4 = tjb.FilterExamples(lambda number: number > 4, features=("number",), name="above 4")
    loader = tjb.build(
        numbers_folder,
        global_batch_size=8,
        num_epochs=1,
        remainder="pad",
        transforms=[tjb.MapExamples(refuse_small)],
        filter=above_4,
    )
    with iter(loader) as batches:
        numbers = np.concatenate([np.asarray(b["number"])[np.asarray(b["_mask"])] for b in batches])
    assert sorted(numbers.tolist()) == [2 * number for number in range(5, 23)]


def test_describe_counts_the_selected(numbers_folder: str) -> None:
    loader = tjb.build(numbers_folder, global_batch_size=4, num_epochs=1, filter=THIRDS)
    assert "9 of 23 examples (filter thirds)" in str(loader.describe())

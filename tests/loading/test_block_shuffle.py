# SPDX-License-Identifier: Apache-2.0
"""Runs of `shuffle="block"`: their batches, description and restores."""

import gc
import os
import re
import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import tfjax_batches as tjb
from tests.made_datasets import number_example
from tfjax_batches.loading import wiring
from tfjax_batches.reading.tfrecord.range_files import RangeFiles


def build(folder: str, **fields: Any) -> tjb.BatchLoader:
    given = {"global_batch_size": 4, "shuffle": "block", "block_size": 3, "with_ids": True}
    return tjb.build(folder, **{"num_epochs": 2, **given, **fields})


@pytest.mark.parametrize("remainder", ["carry", "drop", "pad"])
def test_batches_are_those_of_the_plan(numbers_folder: str, remainder: str) -> None:
    loader = build(numbers_folder, remainder=remainder)
    with iter(loader) as batches:
        for step, batch in enumerate(batches):
            plan = loader.plan_step(step)
            np.testing.assert_array_equal(batch["_id"], plan.examples)
            for vector, index in zip(np.asarray(batch["vector"]), plan.examples, strict=True):
                expected = number_example(int(index))["vector"] if index >= 0 else 0
                np.testing.assert_array_equal(vector, expected)


@pytest.mark.parametrize("remainder", ["carry", "pad"])
def test_blocks_read_in_ranges_give_the_same_batches(
    numbers_folder: str, remainder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = os.pread

    def noted(file: int, count: int, offset: int) -> bytes:
        reads.append(count)
        return read(file, count, offset)

    monkeypatch.setattr(os, "pread", noted)
    fields: dict[str, Any] = {"remainder": remainder}
    if remainder == "carry":
        fields["global_batch_size"] = [(0, 4), (3, 8)]
    loader = build(numbers_folder, reading="range", **fields)
    expected = build(numbers_folder, reading="map", **fields)
    with iter(loader) as batches, iter(expected) as others:
        for batch, other in zip(batches, others, strict=True):
            jax.tree.map(np.testing.assert_array_equal, batch, other)
    assert 0 < len(reads) <= 2 * (8 + 6) + 4 + 8  # blocks and ends of columns; padding; files


@pytest.mark.parametrize("shuffle", ["block", "global"])
def test_what_is_in_the_cache_is_not_read_from_afar(
    numbers_folder: str, tmp_path: Path, shuffle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read_once = RangeFiles._read_once

    def noted(self: RangeFiles, file: int, start: int, end: int) -> bytes:
        reads.append(file)
        return read_once(self, file, start, end)

    monkeypatch.setattr(RangeFiles, "_read_once", noted)
    for epochs in (2, 1):
        fields = {"shuffle": shuffle, "block_size": 3 if shuffle == "block" else None}
        cache = {"reading": "range", "cache_dir": str(tmp_path), "num_epochs": epochs}
        loader = build(numbers_folder, **fields, **cache)
        with iter(loader) as batches, iter(build(numbers_folder, **fields)) as others:
            for batch, other in zip(batches, others, strict=False):
                jax.tree.map(np.testing.assert_array_equal, batch, other)
        assert sorted(reads) == [0, 1, 2]  # each file is one chunk


def test_iterators_that_end_early_leave_no_thread(numbers_folder: str) -> None:
    before = set(threading.enumerate())
    loader = build(numbers_folder, reading="range", num_epochs=None, read_threads=3)
    with iter(loader) as batches:
        next(batches)
    threads = [each for each in {*threading.enumerate()} - before if "-read" in each.name]
    assert 0 < len(threads) <= 3
    del loader, batches
    gc.collect()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_global_order_from_afar_is_warned_of_once(
    numbers_folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(wiring, "_MANY_REQUESTS", 23)
    fields: dict[str, Any] = {"shuffle": "global", "block_size": None}
    quiet: dict[str, Any]
    for quiet in ({"reading": "map"}, {"reading": "range", "cache_dir": str(tmp_path)}):
        build(numbers_folder, **fields, **quiet)
    build(numbers_folder, reading="range")  # in blocks
    assert "requests" not in caplog.text
    build(numbers_folder, **fields, reading="range")
    assert caplog.text.count("an epoch makes 23 requests. shuffle='block' makes about 23") == 1


def test_rows_of_a_step_are_of_other_blocks(numbers_folder: str) -> None:
    blocks = build(numbers_folder).plan_step(1).examples // 3
    assert len(set(blocks.tolist())) == 4


def test_shape_is_chosen_told_and_part_of_the_state(numbers_folder: str) -> None:
    loader = build(numbers_folder, block_size=None)
    assert re.search(r"numbers\S* +23 of 1 example", str(loader.describe()))
    assert "8 of 3 examples" in str(build(numbers_folder).describe())
    assert "of 3 examples" not in str(
        build(numbers_folder, shuffle="none", block_size=None).describe()
    )


def test_columns_of_sizes_by_step_are_divided_by_each(numbers_folder: str) -> None:
    for sizes, columns in (((4, 12, 8), 24), ((8, 12, 20), 20)):  # of 120, too many
        by_step = list(enumerate(sizes))
        loader = build(numbers_folder, global_batch_size=by_step)
        assert loader.fingerprint["block_columns"] == columns


def test_another_batch_size_continues_with_the_same_blocks(numbers_folder: str) -> None:
    loader = build(numbers_folder, num_epochs=None)
    with iter(loader) as batches:
        for _ in range(3):
            next(batches)
        state = batches.get_state()
        expected = np.concatenate([next(batches)["_id"] for _ in range(4)])
    for size in (8, [(0, 4), (3, 8)]):
        larger = build(numbers_folder, num_epochs=None, global_batch_size=size)
        assert larger.fingerprint["block_columns"] == 8
        with larger.restore(state) as batches:
            np.testing.assert_array_equal(next(batches)["_id"], expected[:8])
            later = batches.get_state()  # of a run that keeps its blocks
        again = iter(larger)
        again.set_state(later)
        np.testing.assert_array_equal(next(again)["_id"], expected[8:])
        again.close()
    other = build(numbers_folder, num_epochs=None, global_batch_size=8, block_columns=8)
    with pytest.raises(tjb.StateError, match="saved 4, now 8; set block_columns to 4"):
        other.restore(state)


def test_mixture_goes_on_with_its_blocks_where_a_source_is_added(numbers_folder: str) -> None:
    source = tjb.Source(dataset=numbers_folder, shuffle="block")
    mixture = tjb.MixtureConfig(
        sources={"b": source}, weights={"b": 1}, global_batch_size=4, with_ids=True
    )
    with iter(tjb.build(mixture)) as batches:
        next(batches)
        state = batches.get_state()
        expected = next(batches)["_id"]
    sources = {"a": source, "b": source}
    weights = [(0, {"b": 1}), (5, {"a": 1, "b": 1})]
    wider = tjb.build(mixture, sources=sources, weights=weights, global_batch_size=[(0, 4), (7, 8)])
    with wider.restore(state) as batches:
        np.testing.assert_array_equal(next(batches)["_id"], expected)
        for _ in range(8):
            next(batches)
        assert batches.get_state()["fingerprint"]["sources['b'].block_columns"] == 4
        assert batches.get_state()["fingerprint"]["sources['a'].block_columns"] == 8


def test_sources_of_a_mixture_have_blocks_of_their_own(numbers_folder: str) -> None:
    sources = {
        "a": tjb.Source(dataset=numbers_folder, shuffle="block", block_size=5),
        "b": tjb.Source(dataset=numbers_folder, split="test", shuffle="block"),
        "c": tjb.Source(dataset=numbers_folder),
    }
    mixture = tjb.MixtureConfig(
        sources=sources, weights={"a": 2, "b": 1, "c": 1}, global_batch_size=8, with_ids=True
    )
    loader = tjb.build(mixture)
    text = str(loader.describe())
    assert "5 of 5 examples" in text
    assert len(re.findall("ranges of an epoch", text)) == 1
    with iter(loader) as batches:
        np.testing.assert_array_equal(next(batches)["_id"], loader.plan_step(0).examples)

# SPDX-License-Identifier: Apache-2.0
"""Readers, their open files and their memory go with the last loader, dataset or iterator."""

import gc
import os
import resource
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tests.made_datasets import make_numbers
from tests.placing.test_prefetcher import eventually
from tfjax_batches.pipeline.host_pipeline import HostPipeline
from tfjax_batches.pipeline.weak_call import WeakCall, hold_while_alive

FILES = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a dataset of many files."""
    return make_numbers(tmp_path_factory.mktemp("files"), num_examples=FILES, num_files=FILES)


def open_files() -> int:
    """Return the data files that this process holds open."""
    links = (os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd"))
    names = [os.readlink(link) for link in links if os.path.islink(link)]
    mapped = Path("/proc/self/maps").read_text().splitlines()
    return sum(".tfrecord-" in name for name in names + mapped)


@contextmanager
def no_collector() -> Iterator[int]:
    """Nothing is freed but what nothing refers to: the collector may come too late for files.

    Gives the number of `open_files` of the tests before.
    """
    gc.collect()
    gc.disable()
    try:
        yield open_files()
    finally:
        gc.enable()


def build(folder: str, **fields: Any) -> tjb.BatchLoader:
    fields = {"global_batch_size": 8, "features": ("number",), "shuffle": "none", **fields}
    return tjb.build(folder, **fields)


def read_few(folder: str) -> None:
    with iter(build(folder, global_batch_size=FILES // 3)) as batches:
        for _ in range(3):
            next(batches)


def test_loaders_made_anew_need_no_more_files_than_one(folder: str) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with no_collector() as before:
        # A loader opens each file, up to a quarter of the limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (4 * FILES, limits[1]))
        try:
            for _ in range(200):
                read_few(folder)
                assert open_files() == before
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_loop_to_the_end_closes_its_files(folder: str) -> None:
    with no_collector() as before:
        for batch in build(folder, num_epochs=1, global_batch_size=FILES // 3):
            del batch
        assert eventually(lambda: open_files() == before)  # the thread ends after the last batch


def test_dataset_that_outlives_its_loader_reads_on_and_then_closes_its_files(folder: str) -> None:
    with no_collector() as before:
        dataset = build(folder, num_epochs=2).dataset().unbatch().map(lambda batch: batch["number"])
        for _ in range(2):
            numbers = list(dataset.as_numpy_iterator())
            assert numbers == [*range(FILES)] * 2
        iterator = iter(dataset)
        del dataset
        assert [int(next(iterator)) for _ in range(60)] == list(range(60))
        assert open_files() > before
        del iterator
        assert open_files() == before


def test_iterator_reads_on_without_its_loader(folder: str) -> None:
    with no_collector() as before:
        with iter(build(folder, num_epochs=3)) as batches:
            found = np.concatenate([np.asarray(batch["number"]) for batch in batches])
        assert found.tolist() == ([*range(FILES)] * 3)[: len(found)]
        del batches
        assert open_files() == before


def test_scan_of_a_filter_closes_its_files(folder: str) -> None:
    even = tjb.FilterExamples(lambda number: number % 2 == 0, features=("number",), name="even")
    with no_collector() as before:
        loader = build(folder, filter=even)
        assert loader.num_examples == FILES // 2
        del loader
        assert open_files() == before


def test_pipeline_that_named_a_bad_record_closes_its_files(tmp_path: Path) -> None:
    folder = make_numbers(tmp_path, num_examples=20, num_files=5)
    file = max(Path(folder).glob("*train*-of-*"))
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    file.write_bytes(data)
    gc.collect()
    before = open_files()
    batches = build(folder, num_epochs=1, global_batch_size=4).host_batches()
    with pytest.raises(tjb.RecordError, match=r"record 3 of .*00004-of-00005"):
        list(batches)
    del batches
    gc.collect()  # of the traceback
    assert open_files() == before


def test_readers_of_a_loader_go_with_it(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Any]] = []
    planned_reader = HostPipeline._planned_reader

    def noted(self: HostPipeline, *arguments: Any, **fields: Any) -> Any:
        reader = planned_reader(self, *arguments, **fields)
        made.append(weakref.ref(reader))
        return reader

    monkeypatch.setattr(HostPipeline, "_planned_reader", noted)
    with no_collector():
        loader = build(folder)
        dataset = loader.dataset()
        next(iter(dataset))
        read_few(folder)
        held = [reader for reader in made if reader() is not None]
        assert len(made) > len(held) > 0
        del loader, dataset
        assert [reader for reader in made if reader() is not None] == []


def test_dataset_made_inside_of_a_graph_reads_as_long_as_the_graph(folder: str) -> None:
    loader = build(folder, num_epochs=1)
    repeated = tf.data.Dataset.range(2).flat_map(lambda _: loader.dataset())
    gc.collect()
    found = [number for batch in repeated for number in batch["number"].numpy().tolist()]
    assert found == [*range(FILES - FILES % 8)] * 2

    def total() -> tf.Tensor:
        numbers = tf.constant(0, tf.int64)
        for batch in loader.dataset():
            numbers += tf.reduce_sum(batch["number"])
        return numbers

    traced = tf.function(total)
    for _ in range(2):
        assert int(traced()) == sum(range(FILES - FILES % 8))
        gc.collect()


def test_weak_call_of_a_function_that_is_gone_ends_the_data() -> None:
    def double(number: int) -> int:
        return 2 * number

    call = WeakCall(double)
    assert call(4) == 8
    del double
    with pytest.raises(StopIteration, match="was deleted"):
        call(4)


def test_hold_while_alive_ends_with_the_dataset() -> None:
    def identity(number: int) -> int:
        return number

    call = WeakCall(identity)
    dataset = tf.data.Dataset.range(3)
    hold_while_alive(dataset, identity)
    del identity
    later = dataset.batch(2)
    del dataset
    assert call(1) == 1
    del later
    with pytest.raises(StopIteration):
        call(1)

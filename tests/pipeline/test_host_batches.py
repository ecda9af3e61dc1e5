# SPDX-License-Identifier: Apache-2.0
"""Host batches after failures: each step once, errors at their step, no lasting loss of speed."""

import dataclasses
import itertools
import logging
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tests.made_datasets import make_numbers
from tfjax_batches.pipeline import host_batches
from tfjax_batches.pipeline.host_pipeline import HostPipeline, ReadOptions
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.formats import RecordReader


class Failing:
    """Reads, and fails so many times where some examples are asked for; below 0: always."""

    def __init__(self, reader: RecordReader, examples: range, times: int) -> None:
        self._reader = reader
        self._examples = examples
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        # Not of one example, so that no record is found to be bad.
        if self.times and len(examples) > 1 and np.isin(examples, list(self._examples)).any():
            self.times -= 1
            raise OSError("a passing error")
        return self._reader.read(examples)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> HostPipeline:
    folder = make_numbers(tmp_path_factory.mktemp("many"), num_examples=200, num_files=2)
    loader = tjb.build(
        folder, global_batch_size=4, shuffle="none", num_epochs=1, features=("number",)
    )
    assert loader.pipeline.group_sizes_at(0).steps > 1
    return loader.pipeline


def opened(pipeline: HostPipeline, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that will hold the steps an element of each dataset that is opened."""
    steps: list[int] = []
    dataset = HostPipeline.dataset

    def noted(self: HostPipeline, start_step: int, **options: Any) -> tf.data.Dataset:
        steps.append(self.group_sizes_at(start_step).steps if options["together"] else 1)
        return dataset(self, start_step, **options)

    monkeypatch.setattr(HostPipeline, "dataset", noted)
    return steps


@pytest.fixture
def dataset_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step is made alone before the dataset is opened."""
    monkeypatch.setattr(host_batches, "_SECONDS_ALONE", 0.0)


def numbers(batches: Iterator[Any]) -> list[int]:
    return [number for batch in batches for number in batch[("number",)].tolist()]


@pytest.mark.usefixtures("dataset_at_once")
def test_an_error_of_reading_that_passes_is_logged_once_with_its_step(
    pipeline: HostPipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Failing(pipeline.readers[0], range(90, 91), times=2)
    steps = opened(pipeline, monkeypatch)
    with caplog.at_level(logging.WARNING):
        found = numbers(dataclasses.replace(pipeline, readers=(reader,)).host_batches())
    assert found == list(range(200))
    assert reader.times == 0
    assert len(steps) == 1
    assert len(caplog.messages) == 1
    assert "step 16 was read only when tried again" in caplog.text
    assert "a passing error" in caplog.text


@pytest.mark.usefixtures("dataset_at_once")
def test_an_error_of_a_block_that_passes_loses_nothing_is_logged_and_blocks_resume(
    pipeline: HostPipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Failing(pipeline.readers[0], range(90, 91), times=3)
    steps = opened(pipeline, monkeypatch)
    with caplog.at_level(logging.WARNING):
        found = numbers(dataclasses.replace(pipeline, readers=(reader,)).host_batches())
    assert found == list(range(200))
    assert reader.times == 0
    whole = pipeline.group_sizes_at(0).steps
    assert steps == [whole, whole]
    assert len(caplog.messages) == 1
    assert f"one of {whole} steps from step 16 on failed; each is made alone: " in caplog.text


@pytest.mark.usefixtures("dataset_at_once")
@pytest.mark.parametrize("times", [4, 6, 7, 8, 9])
def test_errors_that_pass_while_they_are_searched_for_lose_nothing(
    pipeline: HostPipeline, times: int
) -> None:
    """Three tries of the block, three of the step, and three once its records read well."""
    reader = Failing(pipeline.readers[0], range(64, 65), times=times)
    if times < 9:
        assert numbers(dataclasses.replace(pipeline, readers=(reader,)).host_batches()) == [
            *range(200)
        ]
        return
    with pytest.raises(OSError, match="a passing error"):
        numbers(dataclasses.replace(pipeline, readers=(reader,)).host_batches())


class FailingAtRandom(Failing):
    """Fails in one of 50 reads.

    Attributes:
        failures: So far.
    """

    def __init__(self, reader: RecordReader) -> None:
        super().__init__(reader, range(0), times=0)
        self._random = random.Random(0)
        self.failures = 0

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        if self._random.random() < 1 / 50:
            self.failures += 1
            raise OSError("a passing error")
        return super().read(examples)


@pytest.mark.usefixtures("dataset_at_once")
@pytest.mark.parametrize("with_group_size", [{"group_size": 4}, {"group_size": 2}])
def test_reads_that_fail_at_random_change_no_batch_and_log_few_lines(
    pipeline: HostPipeline, with_group_size: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    plan = dataclasses.replace(pipeline.plan, num_rows=40 * 200)
    options = ReadOptions(**with_group_size)
    reader = FailingAtRandom(pipeline.readers[0])
    failing = dataclasses.replace(pipeline, plan=plan, options=options, readers=(reader,))
    assert numbers(failing.host_batches()) == [*range(200)] * 40
    assert reader.failures > 20
    assert len(caplog.messages) < 10


def test_an_error_that_stays_comes_at_its_step_with_its_number(pipeline: HostPipeline) -> None:
    reader = Failing(pipeline.readers[0], range(90, 91), times=-1)
    batches = dataclasses.replace(pipeline, readers=(reader,)).host_batches()
    assert [next(batches)[("number",)][0] for _ in range(22)] == list(range(0, 88, 4))
    with pytest.raises(OSError, match="a passing error") as caught:
        next(batches)
    assert caught.value.__notes__ == ["This is step 22 of the loader."]


def test_a_record_that_is_always_bad_is_named_at_its_step_soon_and_without_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_numbers(tmp_path, num_examples=40)
    (file,) = Path(folder).glob("*train*-of-*")
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    file.write_bytes(data)
    loader = tjb.build(folder, global_batch_size=4, shuffle="none", num_epochs=1)
    caplog.clear()
    batches = loader.host_batches()
    assert [next(batches)["number"][0] for _ in range(9)] == list(range(0, 36, 4))
    start = time.monotonic()
    with pytest.raises(tjb.RecordError, match=r"record 39 of .*, at byte \d+.*Step 9 on process 0"):
        next(batches)
    assert time.monotonic() - start < 2
    assert caplog.messages == []


def test_a_short_iteration_opens_no_dataset(
    pipeline: HostPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = opened(pipeline, monkeypatch)
    monkeypatch.setattr(host_batches, "_SECONDS_ALONE", 1e9)
    assert numbers(pipeline.host_batches()) == list(range(200))
    assert numbers(pipeline.host_batches(49)) == list(range(196, 200))
    assert numbers(pipeline.host_batches(50)) == []
    assert steps == []


@pytest.mark.parametrize("alone", [1, 7, 8, 49])
def test_the_dataset_goes_on_where_steps_made_alone_end(
    pipeline: HostPipeline, monkeypatch: pytest.MonkeyPatch, alone: int
) -> None:
    steps = opened(pipeline, monkeypatch)
    ticks = itertools.count()  # each step takes one second
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(host_batches, "_SECONDS_ALONE", float(alone))
    batches = pipeline.host_batches()
    found = numbers(itertools.islice(batches, alone))
    assert steps == []
    assert found + numbers(batches) == list(range(200))
    assert steps == [pipeline.group_sizes_at(0).steps]


def test_steps_of_several_groups_are_not_made_alone(
    pipeline: HostPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = opened(pipeline, monkeypatch)
    monkeypatch.setattr(host_batches, "_SECONDS_ALONE", 1e9)
    parted = dataclasses.replace(pipeline, options=ReadOptions(group_size=2))
    assert next(parted.host_batches())[("number",)].tolist() == [0, 1, 2, 3]
    assert steps == [1]


def test_host_batches_from_any_step_are_those_of_the_dataset(pipeline: HostPipeline) -> None:
    for start in (0, 1, 43, 49, 50):  # some steps alone, the others of the dataset
        found = numbers(pipeline.host_batches(start))
        assert found == list(range(4 * start, 200))
        assert numbers(pipeline.dataset(start).as_numpy_iterator()) == found
    for start in (-1, 51):
        with pytest.raises(IndexError, match=f"0 <= start_step <= 50; got {start}"):
            pipeline.host_batches(start)


def test_a_second_iteration_traces_no_group_again(
    pipeline: HostPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers(pipeline.host_batches())
    monkeypatch.setattr(type(pipeline.group), "_apply", None)  # tracing would call it
    assert numbers(pipeline.host_batches()) == list(range(200))
    found = pipeline.plan.starting_at(96)
    assert found is not None
    moved, step = found
    assert numbers(dataclasses.replace(pipeline, plan=moved).host_batches(step))[0] == 96

# SPDX-License-Identifier: Apache-2.0
"""Blocks are read once, ahead, and give the records of the plan; what fails is read alone."""

import concurrent.futures
import threading
import time

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.test_planned_reader import FakeReader
from tests.strategies import mixture_plans
from tfjax_batches.errors import RecordError
from tfjax_batches.pipeline import block_reads
from tfjax_batches.pipeline.block_reads import BlockReads
from tfjax_batches.planning.block_order import BlockOrder, BlockShape
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.selection import WholeSplit
from tfjax_batches.reading.read_pool import ReadPool
from tfjax_batches.reading.retries import RetryingReader


class NotingReader(FakeReader):
    """Notes the examples of each call; fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.calls: list[list[int]] = []
        self.failures = failures

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        self.calls.append(examples.tolist())
        if self.failures:
            self.failures -= 1
            raise RecordError("the storage is busy")
        return super().read(examples)


def blocks_of(
    plan: BatchPlan, rows: Int64Array, reader: NotingReader, source: int = 0, **fields: int
) -> BlockReads:
    given = {"ahead_bytes": 20, "start_step": 0, **fields}
    by_size = {size: rows[rows < size] for _, size in plan.schedule.sizes}
    return BlockReads(
        plan, source, by_size, RetryingReader(reader), record_bytes=1.0, pool=ReadPool(4), **given
    )


def block_plan(num_examples: int, rows: int, size: int, epochs: int | None = 1) -> BatchPlan:
    return plan_dataset(
        WholeSplit(num_in_split=num_examples),
        global_batch_size=rows,
        shuffle=Shuffle.BLOCK,
        shape=BlockShape(block_size=size, block_columns=rows),
        seed=3,
        num_epochs=epochs,
        remainder=Remainder.CARRY,
    )


def take(blocks: BlockReads, plan: BatchPlan, step: int, rows: Int64Array, source: int = 0) -> int:
    """Take the rows of a step, check them, and return how many there are."""
    planned = plan.plan_rows(step, rows[rows < plan.rows_at(step)])
    here = (planned.sources == source) & planned.mask
    found = blocks.take(step, planned.examples[here], planned.epochs[here])
    assert found.tolist() == [b"%d\0" % example for example in planned.examples[here]]
    return int(here.sum())


def live_records(blocks: BlockReads) -> int:
    """Return how many records are requested and not taken."""
    return blocks._live.num_wanted - sum(len(read.examples) for read in blocks._wanted)


def wait_for(blocks: BlockReads) -> None:
    """Wait for all reads that are requested."""
    running = [read.done for reads in [*blocks._running.values()] for read in reads if read.done]
    concurrent.futures.wait(running)


@given(mixture_plans(), st.data())
def test_each_record_is_read_once_and_taken_in_its_step(
    plan: BatchPlan, data: st.DataObject
) -> None:
    orders = [isinstance(source.order, BlockOrder) for source in plan.sources]
    source = data.draw(st.integers(0, len(orders) - 1))
    if not orders[source]:
        return
    rows = np.arange(plan.global_batch_size)[data.draw(st.integers(0, 1)) :: 2]
    if not len(rows):
        return
    start = data.draw(st.integers(0, min(5, plan.num_steps or 5)))
    stop = min(start + 30, plan.num_steps or 2**60)
    reader = NotingReader()
    blocks = blocks_of(plan, rows, reader, source, start_step=start)
    taken = sum(take(blocks, plan, step, rows, source) for step in range(start, stop))
    wait_for(blocks)
    assert sum(map(len, reader.calls)) == taken + live_records(blocks)
    if stop == plan.num_steps:
        assert live_records(blocks) == 0


def test_processes_read_each_block_once_and_keep_few() -> None:
    plan, live = block_plan(4000, 32, 10), 0
    calls = 0
    for process in range(4):
        rows = np.arange(8 * process, 8 * process + 8)
        reader = NotingReader()
        blocks = blocks_of(plan, rows, reader)
        for step in range(plan.num_steps or 0):
            take(blocks, plan, step, rows)
            live = max(live, live_records(blocks))
        calls += len(reader.calls)
    assert calls <= 400 + 32 + 4 * 2  # blocks, ends of columns, ends of processes
    assert live <= 8 * 10 + 20 + 10  # a block a row, those ahead, and one beyond


def test_records_ahead_are_bounded_by_bytes() -> None:
    plan, rows = block_plan(4000, 32, 10), np.arange(32)
    reader = NotingReader()
    blocks = blocks_of(plan, rows, reader, ahead_bytes=50)
    take(blocks, plan, 0, rows)
    assert 50 <= sum(len(read.examples) for read in blocks._ahead) < 60


def test_small_dataset_is_not_planned_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_reads, "_MOST_STEPS_AHEAD", 8)
    plan, rows = block_plan(7, 4, 3, epochs=None), np.arange(4)
    blocks = blocks_of(plan, rows, NotingReader(), ahead_bytes=2**40)
    for step in range(20):
        take(blocks, plan, step, rows)
    assert blocks._planned_to < 20 + 8 + 2 * block_reads._PLANNED_ROWS


def test_step_that_is_made_again_and_block_that_fails_are_read_alone() -> None:
    plan, rows = block_plan(100, 4, 5), np.arange(4)
    reader = NotingReader(failures=3)  # all tries of one block
    blocks = blocks_of(plan, rows, reader)
    for step in (0, 1, 0, 2, 2, 3):
        take(blocks, plan, step, rows)


def test_failure_that_lasts_is_an_error() -> None:
    plan, rows = block_plan(100, 4, 5), np.arange(4)
    with pytest.raises(RecordError, match="busy"):
        take(blocks_of(plan, rows, NotingReader(failures=10**6)), plan, 0, rows)


def test_threads_share_one_read_of_a_block() -> None:
    class SlowReader(NotingReader):
        def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
            time.sleep(0.01)
            return super().read(examples)

    plan, reader = block_plan(400, 8, 10), SlowReader()
    blocks = blocks_of(plan, np.arange(8), reader)
    parts = [np.arange(0, 4), np.arange(4, 8)]
    for step in range(20):
        threads = [threading.Thread(target=take, args=(blocks, plan, step, rows)) for rows in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    read = [example for call in reader.calls for example in call]
    assert len(read) == len(set(read))

# SPDX-License-Identifier: Apache-2.0
"""Reads the blocks of `shuffle="block"` whole, each once, and ahead of the steps that take them.

The plan says which blocks come next, and its inverse which of their rows this process takes. Holds
at all times: a record is kept from the request of its block until it is taken.
"""

import dataclasses
import functools
import itertools
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, wait

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import RecordError
from tfjax_batches.pipeline.live_blocks import LiveBlocks
from tfjax_batches.planning.block_order import BlockOrder
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.reading.read_pool import ReadPool
from tfjax_batches.reading.retries import RetryingReader

READ_AHEAD_BYTES = 2**27
"""Bytes of blocks that are read before the step that needs them, by default."""

_PLANNED_ROWS = 2**12  # in one call, as in `planned_reader`
_MOST_STEPS_AHEAD = 256  # where all of a small dataset would be ahead, for many epochs
_COLUMNS_AHEAD = 2  # blocks of each column that are ahead, at most
# A block is taken within about `block_size` draws of its column. What is taken much later, where
# one column ends in the block that another begins with, is read again then, not kept.
_MOST_DRAWS = 2


@dataclasses.dataclass(slots=True, eq=False)
class _Read:
    """The read of a block, or of what this process takes of it.

    Attributes:
        step: The first step that takes of it.
        block: Number of the block in its epoch and in those before.
        places: int64[n], what is taken, as places in the block.
        examples: int64[n], the same as examples.
        done: Ends once the records are kept. None: it is not requested yet.
    """

    step: int
    block: int
    places: Int64Array
    examples: Int64Array
    done: "Future[None] | None" = None


class BlockReads:
    """The records of a source whose order is that of blocks, for one iteration.

    Args:
        plan: The order of the run.
        source: The source.
        rows: Global batch size → int64[process_batch], the rows that this process holds.
        reader: Access to the records.
        record_bytes: Mean size of a record.
        pool: The threads that read.
        ahead_bytes: Bytes of the blocks that are read before the step that needs them.
        start_step: The first step that is taken.
    """

    def __init__(
        self,
        plan: BatchPlan,
        source: int,
        rows: Mapping[int, Int64Array],
        reader: RetryingReader,
        *,
        record_bytes: float,
        pool: ReadPool,
        ahead_bytes: int,
        start_step: int,
    ) -> None:
        order = plan.sources[source].order
        assert isinstance(order, BlockOrder)
        self._order = order
        self._least_share = float(min(share for _, share in order.shares))
        self._plan, self._source, self._rows = plan, source, rows
        self._is_held = {size: np.isin(np.arange(size), held) for size, held in rows.items()}
        self._reader, self._pool = reader, pool
        self._record_bytes, self._ahead_bytes = record_bytes, ahead_bytes
        self._live = LiveBlocks(order.shape.block_size)
        self._running: dict[int, list[_Read]] = {}  # by block
        self._wanted: deque[_Read] = deque()  # not requested yet
        self._ahead: deque[_Read] = deque()  # requested before the step that needs them
        self._records_ahead = 0
        self._planned_to = start_step
        self._lock = threading.Lock()  # of all that is above

    def take(
        self, last_step: int, examples: Int64Array, epochs: Int64Array
    ) -> npt.NDArray[np.object_]:
        """Return the stored bytes of examples in some epochs, object[n], and forget them.

        Args:
            last_step: The last step that these rows are part of.
            examples: int64[n], without padding.
            epochs: int64[n].

        Raises:
            RecordError: As `RecordReader.read`.
        """
        of_rows, places = self._locate(examples, epochs)
        numbers, of_block = np.unique(of_rows, return_inverse=True)
        blocks = numbers.tolist()
        with self._lock:
            self._request(last_step)
            reads = [read for block in blocks for read in self._running.get(block, ())]
        wait([read.done for read in reads if read.done])
        with self._lock:
            records = self._live.take(blocks, of_block, places)
        # Of a step that is made again, or of a block that could not be read.
        if missing := [place for place, record in enumerate(records) if record is None]:
            records[missing] = self._reader.read(examples[missing], f"step {last_step}")
        return records

    def _locate(self, examples: Int64Array, epochs: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return block, counted through all epochs, and place in it of each example, int64[n]."""
        numbers = self._plan.sources[self._source].selection.numbers_of(examples)
        blocks, places = np.divmod(numbers, self._order.shape.block_size)
        return epochs * self._order.num_blocks + blocks, places

    def _request(self, last_step: int) -> None:
        """Request the blocks of all steps up to one, and as many later ones as may be ahead."""
        while self._ahead and self._ahead[0].step <= last_step:
            self._records_ahead -= len(self._ahead.popleft().examples)
        while True:
            while self._wanted:
                read = self._wanted[0]
                if read.step > last_step:
                    if self._is_far_ahead():
                        return
                    self._ahead.append(read)
                    self._records_ahead += len(read.examples)
                self._wanted.popleft()
                self._running.setdefault(read.block, []).append(read)
                read.done = self._pool.submit(functools.partial(self._run, read))
            if self._planned_to > last_step + _MOST_STEPS_AHEAD or not self._plan_steps():
                return

    def _is_far_ahead(self) -> bool:
        return (
            self._records_ahead * self._record_bytes >= self._ahead_bytes
            or len(self._ahead) >= _COLUMNS_AHEAD * self._order.shape.block_columns
        )

    def _run(self, read: _Read) -> None:
        """Read records and keep them; forget them where they cannot be read."""
        try:
            records = self._reader.read(read.examples, f"step {read.step}")
        except RecordError:
            records = None
        with self._lock:
            if records is None:
                self._live.forget(read.block, len(read.examples))
            else:
                self._live.put(read.block, read.places, records)
            self._running[read.block].remove(read)
            if not self._running[read.block]:
                del self._running[read.block]

    def _plan_steps(self) -> bool:
        """Find the blocks that the next steps begin; return False where there is no step left."""
        first, schedule = self._planned_to, self._plan.schedule
        if first == self._plan.num_steps:
            return False
        _, end = next(schedule.runs(first, self._plan.num_steps))  # of one size
        rows = self._rows[schedule.rows_at(first)]
        stop = first + max(1, _PLANNED_ROWS // len(rows))
        steps = range(first, stop if end is None else min(stop, end))
        plans = self._plan.plan_steps(steps, rows)
        here = [(plan.sources == self._source) & plan.mask for plan in plans]
        examples = np.concatenate([p.examples[h] for p, h in zip(plans, here, strict=True)])
        epochs = np.concatenate([p.epochs[h] for p, h in zip(plans, here, strict=True)])
        of_step = np.repeat(np.array(steps), [h.sum() for h in here])
        blocks, _ = self._locate(examples, epochs)
        numbers, of_block = np.unique(blocks, return_inverse=True)
        # More than once only where a step takes of a block that an earlier one has taken of.
        while len(new := np.flatnonzero(of_step >= self._live.ends(numbers.tolist())[of_block])):
            self._begin_blocks(blocks[new], of_step[new])
        self._planned_to = steps.stop
        return True

    def _begin_blocks(self, blocks: Int64Array, steps: Int64Array) -> None:
        """Want the blocks of some rows that have none, int64[n] in order of their steps."""
        selection, size = self._plan.sources[self._source].selection, self._order.shape.block_size
        _, firsts = np.unique(blocks, return_index=True)
        firsts.sort()
        blocks, begins = blocks[firsts], steps[firsts]
        epochs, in_epoch = np.divmod(blocks, self._order.num_blocks)
        numbers = in_epoch[:, np.newaxis] * size + np.arange(size)
        of_block, places = np.nonzero(numbers < self._order.size)  # the last block may be shorter
        examples = selection.examples_at(numbers[of_block, places])
        ends = self._ends(begins)
        is_taken = self._are_taken(examples, epochs[of_block], begins[of_block], ends[of_block])
        examples, places, of_block = examples[is_taken], places[is_taken], of_block[is_taken]
        edges = np.searchsorted(of_block, np.arange(len(firsts) + 1)).tolist()
        rows = zip(blocks.tolist(), begins.tolist(), ends.tolist(), strict=True)
        for (block, begin, end), (first, last) in zip(rows, itertools.pairwise(edges), strict=True):
            self._live.want(block, last - first, end)
            self._wanted.append(_Read(begin, block, places[first:last], examples[first:last]))

    def _ends(self, begins: Int64Array) -> Int64Array:
        """Return the step before which a block that begins at a step is taken, both int64[n]."""
        shape = self._order.shape
        draws = self._plan.schedule.rows_of(begins) * self._least_share / shape.block_columns
        return begins + np.ceil(_MOST_DRAWS * shape.block_size / draws).astype(np.int64)

    def _are_taken(
        self, examples: Int64Array, epochs: Int64Array, begins: Int64Array, ends: Int64Array
    ) -> npt.NDArray[np.bool_]:
        """Return which examples this process takes from one step until before another, all [n]."""
        steps, rows = self._plan.find(self._source, examples, epochs)
        is_taken: npt.NDArray[np.bool_] = (begins <= steps) & (steps < ends)
        sizes = self._plan.schedule.rows_of(steps)
        for size, is_held in self._is_held.items():
            here = is_taken & (sizes == size)
            is_taken[here] = is_held[rows[here]]
        return is_taken

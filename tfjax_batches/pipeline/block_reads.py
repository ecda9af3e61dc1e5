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
from concurrent.futures import Future

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.block_order import BlockOrder
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.reading.read_pool import ReadPool
from tfjax_batches.reading.retries import RetryingReader

READ_AHEAD_BYTES = 2**27
"""Bytes of blocks that are read before the step that needs them, by default."""

_PLANNED_ROWS = 2**12  # in one call, as in `planned_reader`
_MOST_STEPS_AHEAD = 256  # where all of a small dataset would be ahead, for many epochs
# A block is taken within about `block_size` draws of its column. What is taken much later, where
# one column ends in the block that another begins with, is read again then, not kept.
_MOST_DRAWS = 2


@dataclasses.dataclass(slots=True, eq=False)
class _Block:
    """A block, or what this process takes of it.

    Attributes:
        step: The first step that takes of it.
        examples: int64[n], what is taken.
        records: The stored bytes of these by example, once it is requested.
    """

    step: int
    examples: Int64Array
    records: "Future[dict[int, bytes]] | None" = None

    def take(self, example: int) -> bytes | None:
        """Return the record of an example, once; None: it could not be read."""
        if self.records is None:
            return None
        try:
            return self.records.result().pop(example, None)
        except RecordError:
            return None


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
        self._block_of: dict[int, _Block] = {}  # by example and epoch
        self._wanted: deque[_Block] = deque()  # not requested yet
        self._ahead: deque[_Block] = deque()  # requested before the step that needs them
        self._planned_to = start_step
        self._lock = threading.Lock()

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
        with self._lock:
            self._request(last_step)
            blocks = [self._block_of.pop(key, None) for key in self._keys(examples, epochs)]
        found = [
            None if block is None else block.take(example)
            for block, example in zip(blocks, examples.tolist(), strict=True)
        ]
        records = np.fromiter(found, object, len(found))
        # Of a step that is made again, or of a block that could not be read.
        if missing := [place for place, record in enumerate(found) if record is None]:
            records[missing] = self._reader.read(examples[missing], f"step {last_step}")
        return records

    def _keys(self, examples: Int64Array, epochs: Int64Array) -> list[int]:
        """Return a number for each example in its epoch."""
        num_in_split = self._plan.sources[self._source].selection.num_in_split
        keys: list[int] = (epochs * num_in_split + examples).tolist()
        return keys

    def _request(self, last_step: int) -> None:
        """Request the blocks of all steps up to one, and as many later ones as may be ahead."""
        while self._ahead and self._ahead[0].step <= last_step:
            self._ahead.popleft()
        ahead_bytes = sum(len(block.examples) for block in self._ahead) * self._record_bytes
        while True:
            while self._wanted:
                block = self._wanted[0]
                if block.step > last_step:
                    if ahead_bytes >= self._ahead_bytes:
                        return
                    self._ahead.append(block)
                    ahead_bytes += len(block.examples) * self._record_bytes
                self._wanted.popleft()
                read = functools.partial(_read, self._reader, block.examples, f"step {block.step}")
                block.records = self._pool.submit(read)
            if self._planned_to > last_step + _MOST_STEPS_AHEAD or not self._plan_steps():
                return

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
        keys = self._keys(examples, epochs)
        # More than once only where a step takes of a block that an earlier one has taken of.
        while new := [place for place, key in enumerate(keys) if key not in self._block_of]:
            self._begin_blocks(examples[new], epochs[new], of_step[new])
        self._planned_to = steps.stop
        return True

    def _begin_blocks(self, examples: Int64Array, epochs: Int64Array, steps: Int64Array) -> None:
        """Want the blocks of some rows that have none, int64[n] in order of their steps."""
        selection, size = self._plan.sources[self._source].selection, self._order.shape.block_size
        blocks = selection.numbers_of(examples) // size
        _, firsts = np.unique(epochs * self._order.num_blocks + blocks, return_index=True)
        firsts.sort()
        numbers = blocks[firsts, np.newaxis] * size + np.arange(size)
        of_block, _ = np.nonzero(numbers < self._order.size)  # the last block may be shorter
        examples = selection.examples_at(numbers[numbers < self._order.size])
        epochs, begins = epochs[firsts], steps[firsts]
        is_taken = self._are_taken(examples, epochs[of_block], begins[of_block])
        examples, of_block = examples[is_taken], of_block[is_taken]
        parts = np.split(examples, np.searchsorted(of_block, np.arange(1, len(firsts))))
        for part, epoch, begin in zip(parts, epochs, begins.tolist(), strict=True):
            keys = self._keys(part, epoch)
            is_new = [key not in self._block_of for key in keys]
            block = _Block(begin, part[is_new])
            self._wanted.append(block)
            self._block_of |= dict.fromkeys(itertools.compress(keys, is_new), block)

    def _are_taken(
        self, examples: Int64Array, epochs: Int64Array, begins: Int64Array
    ) -> npt.NDArray[np.bool_]:
        """Return which examples this process takes soon after a step, all [n]."""
        schedule, shape = self._plan.schedule, self._order.shape
        draws = schedule.rows_of(begins) * self._least_share / shape.columns  # of a column
        ends = begins + np.ceil(_MOST_DRAWS * shape.block_size / draws)
        steps, rows = self._plan.find(self._source, examples, epochs)
        is_taken: npt.NDArray[np.bool_] = (begins <= steps) & (steps < ends)
        sizes = schedule.rows_of(steps)
        for size, is_held in self._is_held.items():
            here = is_taken & (sizes == size)
            is_taken[here] = is_held[rows[here]]
        return is_taken


def _read(reader: RetryingReader, examples: Int64Array, purpose: str) -> dict[int, bytes]:
    return dict(zip(examples.tolist(), reader.read(examples, purpose), strict=True))

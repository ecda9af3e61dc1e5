# SPDX-License-Identifier: Apache-2.0
"""Groups of rows: how a step is cut into them, and what each holds.

A group is the unit of work and of parallelism: a part of a step, a whole step, or, where records
are tiny, a few whole steps.
"""

import dataclasses
import functools
import threading

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import PADDING, BatchPlan, StepPlan
from tfjax_batches.planning.seeds import Int32Array, derive_seeds
from tfjax_batches.reading.formats import RecordReader

# Enough bytes to make the call from tf.data into Python cheap beside the work (it costs some
# 0.4 ms of CPU), few enough that the groups of one batch of images keep all cores busy.
_GROUP_BYTES = 2**20

# Steps of a group, at most. 256 rows of 300 bytes took 1.3 ms of CPU a step in groups of one step,
# 0.97 in groups of four and 0.87 in groups of eight.
_MOST_STEPS = 8

# Rows planned at once: of fewer, calling NumPy takes longer than computing (at 256 rows 1.2 µs a
# row, at 4,096 rows 0.3 µs); of more, the first batch waits.
_PLANNED_ROWS = 2**12
_KEPT_PLANS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupSizes:
    """How the rows of steps are cut into groups.

    Attributes:
        rows: Rows of a step on this process.
        group_rows: Rows of a step in each group; the last group of a step may have fewer.
        steps: Steps of each group; other than 1 only where a group holds all rows of a step.
    """

    rows: int
    group_rows: int
    steps: int = 1

    @property
    def count(self) -> int:
        """Groups of a step."""
        return -(-self.rows // self.group_rows)

    @property
    def is_uniform(self) -> bool:
        """Whether all groups have `group_rows` rows of a step."""
        return self.rows % self.group_rows == 0


def plan_group_sizes(
    rows: int,
    mean_record_bytes: float,
    *,
    most_rows: int,
    group_size: int | None = None,
    row_multiple: int = 1,
) -> GroupSizes:
    """Return groups of equal size where that does not make them much smaller.

    Args:
        rows: Rows of a step on this process.
        mean_record_bytes: Mean size of a stored record.
        most_rows: Rows beyond which a group is decoded less well.
        group_size: Rows of a group, at most, by the user's choice. None: chosen here.
        row_multiple: What the rows of a group are a multiple of; divides `rows`, and is no larger
            than `group_size`.

    Example:
        >>> plan_group_sizes(256, 300.0, most_rows=2**20).steps
        8
        >>> plan_group_sizes(64, 60_000.0, most_rows=128).group_rows
        16
    """
    if group_size is None:
        group_size = min(most_rows, max(1, int(_GROUP_BYTES / mean_record_bytes)))
    if group_size >= rows:
        return GroupSizes(rows=rows, group_rows=rows, steps=min(_MOST_STEPS, group_size // rows))
    largest = max(1, group_size // row_multiple) * row_multiple
    # Equal groups have one static size, and are joined without cutting.
    for group_rows in range(largest, largest // 2, -row_multiple):
        if rows % group_rows == 0:
            return GroupSizes(rows=rows, group_rows=group_rows)
    return GroupSizes(rows=rows, group_rows=largest)


class PlannedReader:
    """Plans and reads groups by (first step, part); called by tf.data from its threads.

    Args:
        plan: The order of the run.
        rows: int64[process_batch], the rows that this process holds.
        reader: Access to the split's records.
        sizes: How `rows` are cut.
        seed_places: Places in the chain that take a seed.
    """

    def __init__(
        self,
        plan: BatchPlan,
        rows: Int64Array,
        reader: RecordReader,
        sizes: GroupSizes,
        seed_places: tuple[int, ...] = (),
    ) -> None:
        self._plan = plan
        self._seed = plan.seed
        self._seed_places = seed_places
        self._plans = _StepPlans(plan, rows)
        self._reader = reader
        self._sizes = sizes

    def __call__(
        self, step: np.int64, part: np.int64
    ) -> tuple[npt.NDArray[np.object_], Int64Array, Int32Array]:
        """Return stored bytes object[n], example int64[n] (-1: padding), seeds int32[n, places, 2].

        Seeds are those of `derive_seeds`.
        """
        start = int(part) * self._sizes.group_rows
        rows = slice(start, start + self._sizes.group_rows)
        plans = [self._plans[int(step) + later] for later in range(self._sizes.steps)]
        examples = np.concatenate([plan.examples[rows] for plan in plans])
        return self._read(examples), examples, self._derive_seeds(plans, rows, examples)

    def _read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        mask = examples != PADDING
        if mask.all():
            return self._reader.read(examples)
        # A padding row is parsed like any other, from a record that is there in any case, and
        # zeroed afterwards. (Not by np.full, which drops zeros from the end of bytes.)
        records = np.empty(len(examples), object)
        records[mask] = self._reader.read(examples[mask])
        records[~mask] = self._padding_record
        return records

    def _derive_seeds(self, plans: list[StepPlan], rows: slice, examples: Int64Array) -> Int32Array:
        if not self._seed_places:
            return np.zeros((len(examples), 0, 2), np.int32)
        epochs = np.concatenate([plan.epochs[rows] for plan in plans])
        return derive_seeds(self._seed, epochs, examples, self._seed_places)

    @functools.cached_property
    def _padding_record(self) -> bytes:
        first = self._plan.examples_at(np.zeros(1, np.int64))
        record: bytes = self._reader.read(first)[0]
        return record


class _StepPlans:
    """The plans of steps near each other, made many at once."""

    def __init__(self, plan: BatchPlan, rows: Int64Array) -> None:
        self._plan = plan
        self._rows = rows
        self._steps = max(1, _PLANNED_ROWS // len(rows))
        self._blocks: dict[int, list[StepPlan]] = {}
        self._lock = threading.Lock()

    def __getitem__(self, step: int) -> StepPlan:
        number, place = divmod(step, self._steps)
        with self._lock:
            if (block := self._blocks.get(number)) is None:
                first = number * self._steps
                stop = first + self._steps
                if self._plan.num_steps is not None:
                    stop = min(stop, self._plan.num_steps)
                block = self._plan.plan_steps(range(first, stop), self._rows)
                while len(self._blocks) >= _KEPT_PLANS:
                    del self._blocks[next(iter(self._blocks))]
                self._blocks[number] = block
        return block[place]

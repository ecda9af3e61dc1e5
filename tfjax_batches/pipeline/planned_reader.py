# SPDX-License-Identifier: Apache-2.0
"""Plans and reads groups: which examples a group holds, their records and their seeds."""

import threading
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tfjax_batches.pipeline.block_reads import BlockReads
from tfjax_batches.pipeline.groups import GroupSizes
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import BatchPlan, StepPlan
from tfjax_batches.planning.seeds import Int32Array, derive_seeds
from tfjax_batches.planning.source_plan import PADDING
from tfjax_batches.reading.formats import RecordReader
from tfjax_batches.reading.retries import RetryingReader

SourceRecords = tuple[npt.NDArray[np.object_], Int64Array, Int32Array]
"""Stored bytes object[n]; example indices int64[n], -1 on padding; seeds int32[n, places, 2]."""

RecordGroup = tuple[npt.NDArray[np.generic], ...]
"""Example indices int64[n], sources int32[n]; then, for each function, records and seeds."""

# Rows planned in one call: for fewer, calling NumPy takes longer than computing (at 256 rows 1.2 µs
# a row, at 4,096 rows 0.3 µs); for more, the first batch waits.
_PLANNED_ROWS = 2**12
_KEPT_PLANS = 8


class PlannedReader:
    """Reads groups by (first step, part); called by tf.data from its threads.

    Args:
        plan: The order of the run.
        rows: int64[process_batch], the rows that this process holds.
        readers: Access to the records of each source.
        sizes: How `rows` are cut.
        function_of: int[sources], which function turns the records of each source into features.
        seed_places: Places in the chain of each function of the transforms that take a seed.
        blocks: Source → its blocks, of sources that are read in blocks. None: there are none.
    """

    def __init__(
        self,
        plan: BatchPlan,
        rows: Int64Array,
        readers: Sequence[RecordReader],
        sizes: GroupSizes,
        function_of: npt.NDArray[np.integer],
        seed_places: Sequence[tuple[int, ...]],
        blocks: Mapping[int, BlockReads] | None = None,
    ) -> None:
        self._plan = plan
        self._function_of = function_of
        self._seed_places = seed_places
        self._plans = _StepPlans(plan, rows)
        self._readers = [RetryingReader(reader) for reader in readers]
        self._sizes = sizes
        self._blocks = blocks or {}

    def __call__(self, step: np.int64, part: np.int64) -> RecordGroup:
        """Return the group that is this part of a step, or that begins with this step."""
        start = int(part) * self._sizes.group_rows
        rows = slice(start, start + self._sizes.group_rows)
        plans = [self._plans[int(step) + later] for later in range(self._sizes.steps)]
        sources = np.concatenate([plan.sources[rows] for plan in plans])
        examples = np.concatenate([plan.examples[rows] for plan in plans])
        epochs = np.concatenate([plan.epochs[rows] for plan in plans])
        group: list[npt.NDArray[np.generic]] = [examples, sources]
        functions = self._function_of[sources]
        last_step = int(step) + self._sizes.steps - 1
        for function, places in enumerate(self._seed_places):
            (here,) = np.nonzero(functions == function)
            records = np.empty(len(here), object)
            seeds = np.empty((len(here), len(places), 2), np.int32)
            for source in np.flatnonzero(self._function_of == function).tolist():
                mine = sources[here] == source
                found = self.read(
                    source, examples[here[mine]], epochs[here[mine]], f"step {step}", last_step
                )
                records[mine], _, seeds[mine] = found
            group += [records, seeds]
        return tuple(group)

    def read(
        self,
        source: int,
        examples: Int64Array,
        epochs: Int64Array,
        purpose: str,
        last_step: int | None = None,
    ) -> SourceRecords:
        """Return the records of examples of a source in some epochs.

        Args:
            source: The source.
            examples: int64[n], -1 on padding.
            epochs: int64[n].
            purpose: Named in the log where reading fails at first.
            last_step: The last step that they are part of. None: they are part of none.
        """
        places = self._seed_places[self._function_of[source]]
        if places:
            seeds = derive_seeds(self._plan.sources[source].seed, epochs, examples, places)
        else:
            seeds = np.zeros((len(examples), 0, 2), np.int32)
        mask = examples != PADDING
        if mask.all() and len(examples):
            return self._take(source, examples, epochs, purpose, last_step), examples, seeds
        # A padding row is parsed like any other, from a record that exists in any case, and is
        # zeroed afterwards. (Not by np.full, which drops zeros from the end of bytes.)
        records = np.empty(len(examples), object)
        if mask.any():
            records[mask] = self._take(source, examples[mask], epochs[mask], purpose, last_step)
        if not mask.all():
            first = self._plan.sources[source].selection.examples_at(np.zeros(1, np.int64))
            records[~mask] = self._readers[source].read(first, "padding")
        return records, examples, seeds

    def _take(
        self,
        source: int,
        examples: Int64Array,
        epochs: Int64Array,
        purpose: str,
        last_step: int | None,
    ) -> npt.NDArray[np.object_]:
        """Return the stored bytes of examples, as for `read`, none of them padding."""
        if last_step is None or source not in self._blocks:
            return self._readers[source].read(examples, purpose)
        return self._blocks[source].take(last_step, examples, epochs)


class _StepPlans:
    """The plans of neighbouring steps, made many at once."""

    def __init__(self, plan: BatchPlan, rows: Int64Array) -> None:
        self._plan = plan
        self._rows = rows
        self._steps = max(1, _PLANNED_ROWS // len(rows))
        self._plans: dict[int, list[StepPlan]] = {}
        self._lock = threading.Lock()

    def __getitem__(self, step: int) -> StepPlan:
        number, index = divmod(step, self._steps)
        with self._lock:
            if (plans := self._plans.get(number)) is None:
                first = number * self._steps
                stop = first + self._steps
                if self._plan.num_steps is not None:
                    stop = min(stop, self._plan.num_steps)
                plans = self._plan.plan_steps(range(first, stop), self._rows)
                while len(self._plans) >= _KEPT_PLANS:
                    del self._plans[next(iter(self._plans))]
                self._plans[number] = plans
        return plans[index]

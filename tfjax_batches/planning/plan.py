# SPDX-License-Identifier: Apache-2.0
"""Which example stands in which row at every step, as arithmetic on one number.

    step ──schedule──► position ──mixture──► (source, place) ──source──► (example, epoch)

Owns the meaning of a position, the number of rows delivered before it since step 0: row r of step s
is the same example on every machine, whatever was read before. It only composes the maps, each of
which is a value of its own. Knows no dataset and no process: the caller says how many examples
there are, and which rows it wants.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.mixture import Int32Array, Mixture
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.policies import Remainder
from tfjax_batches.planning.schedule import MOST_POSITIONS, Schedule
from tfjax_batches.planning.source_plan import PADDING, SourcePlan, examples_at_each


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepPlan:
    """What some rows of one global batch hold.

    Attributes:
        rows: int64[n], rows of the global batch, rising.
        sources: int32[n], the source that each row comes from; 0 where there is only one.
        examples: int64[n], index in its split of the example in each row; -1 on padding.
        epochs: int64[n], the epoch of its source that each row belongs to.
        mask: bool[n], True where the row holds an example.
    """

    rows: Int64Array
    sources: Int32Array
    examples: Int64Array
    epochs: Int64Array
    mask: npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The order of all global batches of a run.

    Attributes:
        schedule: At which position each step begins.
        mixture: Which source each position draws from.
        sources: What each source holds at each of its places.
        num_rows: Positions of the run, padding and an incomplete last batch included; None:
            endless.
        remainder: What happens where an epoch does not end with a batch.
    """

    schedule: Schedule
    mixture: Mixture
    sources: tuple[SourcePlan, ...]
    num_rows: int | None
    remainder: Remainder

    @property
    def num_examples(self) -> int:
        """Examples of an epoch, of all sources."""
        return sum(source.epochs.num_examples for source in self.sources)

    @property
    def examples_of_epoch(self) -> int:
        """Examples that an epoch delivers."""
        return sum(source.epochs.delivered for source in self.sources)

    @property
    def global_batch_size(self) -> int:
        """Rows of the first step."""
        return self.schedule.rows_at(0)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in one epoch, in a mixture in as many rows as an epoch of each source.

        Where batches change their size, those of the first epoch.
        """
        rows = sum(source.epochs.length for source in self.sources)
        return self.schedule.steps_before(self.schedule.first_position + rows)

    @property
    def num_steps(self) -> int | None:
        """Steps of the run; None when endless."""
        return None if self.num_rows is None else self.schedule.steps_before(self.num_rows)

    @property
    def most_steps(self) -> int:
        """Steps of the run; where it is endless, those that positions can count."""
        num_steps = self.num_steps
        return self.schedule.steps_before(2 * MOST_POSITIONS) if num_steps is None else num_steps

    @property
    def left_out_at_end(self) -> int:
        """Examples after the last step that do not fill a batch."""
        return 0 if self.num_rows is None else self.schedule.locate(self.num_rows)[1]

    def rows_at(self, step: int) -> int:
        """Return the rows of a step, or raise IndexError."""
        self._check_steps(step)
        return self.schedule.rows_at(step)

    def position_of(self, step: int) -> int:
        """Return the position of the first row of a step."""
        return self.schedule.position_of(step)

    def starting_at(self, position: int) -> tuple["BatchPlan", int] | None:
        """Return the plan that has a step at a position, and that step; None: there is none."""
        if (found := self.schedule.starting_at(position)) is None:
            return None
        schedule, step = found
        return dataclasses.replace(self, schedule=schedule), step

    def counts_before(self, step: int) -> list[int]:
        """Return how many examples of each source the steps before `step` hold, no padding."""
        counts = self.mixture.counts_at(self.position_of(step)).tolist()
        pairs = zip(self.sources, counts, strict=True)
        return [source.epochs.examples_before(count) for source, count in pairs]

    def examples_before(self, step: int) -> int:
        """Return how many examples the steps before `step` hold, without padding."""
        return sum(self.counts_before(step))

    def plan_rows(self, step: int, rows: Int64Array) -> StepPlan:
        """Return what `rows` (int64[n], rising) hold at a step, or raise IndexError."""
        return self.plan_steps(range(step, step + 1), rows)[0]

    def plan_steps(self, steps: range, rows: Int64Array) -> list[StepPlan]:
        """Return what `rows` hold at each of several consecutive steps.

        Much cheaper than as many calls: at 256 rows a step, most of the time goes into calling
        NumPy.
        """
        self._check_steps(steps[0], steps[-1])
        firsts = self.schedule.positions_of(np.array(steps, np.int64))
        positions = (firsts[:, np.newaxis] + rows).ravel()
        sources, places = self.mixture.locate(positions)
        examples, epochs = self._examples_at(sources, places)
        mask = examples != PADDING
        columns = (column.reshape(len(steps), -1) for column in (sources, examples, epochs, mask))
        return [
            StepPlan(rows=rows, sources=s, examples=e, epochs=o, mask=m)
            for s, e, o, m in zip(*columns, strict=True)
        ]

    def find(
        self, source: int, examples: Int64Array, epochs: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return step and row of each example of a source in an epoch: the inverse of the plan.

        Args:
            source: The source.
            examples: int64[n], indices in its split.
            epochs: int64[n], the epoch that is asked about for each example.

        Returns:
            Two int64[n], both -1 where the example is in no step.
        """
        places = self.sources[source].places_of(examples, epochs)
        steps, rows = np.full(len(places), -1), np.full(len(places), -1)
        (known,) = np.nonzero(places >= 0)
        positions = self.mixture.positions_of(source, places[known])
        comes = positions >= self.schedule.first_position
        if self.num_steps is not None:
            comes &= positions < self.position_of(self.num_steps)
        steps[known[comes]], rows[known[comes]] = self.schedule.locate_each(positions[comes])
        return steps, rows

    def _check_steps(self, *steps: int) -> None:
        for step in steps:
            if not 0 <= step < self.most_steps:
                raise IndexError(f"A step lies in 0 <= step < {self.most_steps}; got {step}.")

    def _examples_at(
        self, sources: Int32Array, places: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return the example and the epoch at each place of a source, all [n]."""
        if len(self.sources) == 1:
            return self.sources[0].examples_at(places)
        # The smallest dtype sorts fastest.
        small = sources.astype(np.min_scalar_type(len(self.sources)))
        order = np.argsort(small, kind="stable")
        examples, epochs = np.empty_like(places), np.empty_like(places)
        examples[order], epochs[order] = examples_at_each(self.sources, small[order], places[order])
        return examples, epochs

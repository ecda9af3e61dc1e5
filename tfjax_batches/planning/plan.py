# SPDX-License-Identifier: Apache-2.0
"""Which example stands in which row at every step, as arithmetic on one number.

Owns the meaning of a position, `step * global_batch_size + row`: row r of step s is the same
example on every machine, whatever was read before. Knows no dataset and no process: the caller says
how many examples there are, and which rows it wants.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.order import Int64Array, permute
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.selection import Selection

MOST_POSITIONS = 2**61
"""Positions of an endless run: they are computed in int64."""

PADDING = -1
"""The example index of rows that hold no example."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepPlan:
    """What some rows of one global batch hold.

    Attributes:
        rows: int64[n], rows of the global batch, rising.
        examples: int64[n], index in the split of the example in each row; -1 on padding.
        epochs: int64[n], the epoch that each row belongs to.
        mask: bool[n], True where the row holds an example.
    """

    rows: Int64Array
    examples: Int64Array
    epochs: Int64Array
    mask: npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The order of all global batches of a run.

    Attributes:
        num_examples: Examples of an epoch, at least 1: those of the split, or of the selection.
        global_batch_size: Rows of a step.
        shuffle: Order within an epoch; a `Shuffle` or its name.
        seed: Seed of that order.
        num_epochs: Passes over the examples; None: endless.
        remainder: What happens where an epoch does not end with a batch; a `Remainder` or its name.
        first_position: Position of row 0 of step 0. Not 0 where a restored run goes on with another
            batch size, which need not divide the position at which it was saved.
        selection: Which examples of the split a filter selected; None: all.

    Raises:
        ConfigError: There would be no step at all.
    """

    num_examples: int
    global_batch_size: int
    shuffle: Shuffle
    seed: int
    num_epochs: int | None
    remainder: Remainder
    first_position: int = 0
    selection: Selection | None = None

    def __post_init__(self) -> None:
        # Names would compare equal to the members and not be them.
        object.__setattr__(self, "shuffle", Shuffle(self.shuffle))
        object.__setattr__(self, "remainder", Remainder(self.remainder))
        too_few = self.num_rows is not None and self.num_rows < self.global_batch_size
        if too_few or self.epoch_length == 0:
            found = self.selection
            examples = found.describe() if found else f"{self.num_examples} examples"
            raise ConfigError(
                f"remainder={self.remainder.value!r} needs examples for one whole batch; "
                f"{examples} with num_epochs={self.num_epochs} do not fill "
                f"global_batch_size={self.global_batch_size}. "
                "Lower global_batch_size or use remainder='pad'."
            )

    def examples_at(self, places: Int64Array) -> Int64Array:
        """Return the index in the split of the example at each place of an epoch, both int64[n]."""
        return places if self.selection is None else self.selection.ids[places]

    @property
    def num_in_split(self) -> int:
        """Examples in the split, selected or not: every example index is below it."""
        return self.num_examples if self.selection is None else self.selection.num_in_split

    @property
    def epoch_length(self) -> int:
        """Rows from the start of one epoch to the start of the next, padding included."""
        return self.remainder.epoch_length(self.num_examples, self.global_batch_size)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in one epoch; under CARRY an epoch may end within a further one."""
        return self.epoch_length // self.global_batch_size

    @property
    def num_steps(self) -> int | None:
        """Steps of the run; None when endless."""
        if self.num_rows is None:
            return None
        return (self.num_rows - self.first_position) // self.global_batch_size

    @property
    def num_rows(self) -> int | None:
        """Positions of the run, padding and an incomplete last batch included; None: endless."""
        return None if self.num_epochs is None else self.num_epochs * self.epoch_length

    @property
    def left_out_each_epoch(self) -> int:
        """Examples of each epoch that no step delivers."""
        return max(0, self.num_examples - self.epoch_length)

    @property
    def left_out_at_end(self) -> int:
        """Examples after the last step that do not fill a batch."""
        if self.num_rows is None:
            return 0
        return (self.num_rows - self.first_position) % self.global_batch_size

    def position_of(self, step: int) -> int:
        """Return the position of the first row of a step."""
        return self.first_position + step * self.global_batch_size

    def starting_at(self, position: int) -> tuple["BatchPlan", int]:
        """Return the plan that has a step at `position`, and that step.

        Steps count as if all batches before had the batch size of this plan.
        """
        step, first_position = divmod(position, self.global_batch_size)
        return dataclasses.replace(self, first_position=first_position), step

    def examples_before(self, step: int) -> int:
        """Return how many examples the steps before `step` hold, without padding."""
        epochs, places = divmod(self.position_of(step), self.epoch_length)
        per_epoch = min(self.epoch_length, self.num_examples)
        return epochs * per_epoch + min(places, per_epoch)

    def plan_rows(self, step: int, rows: Int64Array) -> StepPlan:
        """Return what `rows` (int64[n], rising) hold at a step, or raise IndexError."""
        return self.plan_steps(range(step, step + 1), rows)[0]

    def plan_steps(self, steps: range, rows: Int64Array) -> list[StepPlan]:
        """Return what `rows` hold at each of several consecutive steps.

        Much cheaper than as many calls: at 256 rows a step, most of the time goes into calling
        NumPy.
        """
        stop = self.num_steps
        if stop is None:
            stop = 2 * MOST_POSITIONS // self.global_batch_size
        for step in (steps[0], steps[-1]):
            if not 0 <= step < stop:
                raise IndexError(f"A step lies in 0 <= step < {stop}; got {step}.")
        firsts = np.array([self.position_of(step) for step in steps], np.int64)
        positions = firsts[:, np.newaxis] + rows  # [steps, n]
        epochs, places = np.divmod(positions, self.epoch_length)
        mask = places < self.num_examples
        real = places[mask]
        if self.shuffle is not Shuffle.NONE:
            real = permute(real, self.num_examples, self.seed, epochs[mask])
        examples = np.full_like(places, PADDING)
        examples[mask] = self.examples_at(real)
        return [
            StepPlan(rows=rows, examples=examples[i], epochs=epochs[i], mask=mask[i])
            for i in range(len(steps))
        ]

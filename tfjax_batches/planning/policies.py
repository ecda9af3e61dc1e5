# SPDX-License-Identifier: Apache-2.0
"""The named policies of a run: the order of an epoch, what happens at its end and after the last.

All that depends on a policy stands here. To add one, add a member and its answers.
"""

import enum

from tfjax_batches.text.formatting import count_text


class Shuffle(enum.StrEnum):
    """In which order the examples of an epoch come."""

    NONE = "none"
    """The order of the split, the same in each epoch."""
    GLOBAL = "global"
    """A permutation of the whole split, a new one in each epoch, fixed by seed and epoch."""
    BLOCK = "block"
    """Blocks of neighbours in a new order in each epoch, each row of a batch from another block."""


class Remainder(enum.StrEnum):
    """What happens where an epoch does not end with a batch."""

    CARRY = "carry"
    """The batch goes on with the next epoch: nothing is lost, batches may span two epochs."""
    DROP = "drop"
    """The examples that do not fill a batch are left out of that epoch."""
    PAD = "pad"
    """The last batch of each epoch is filled with rows of zeros, which `_mask` marks."""

    def epoch_length(self, num_examples: int, global_batch_size: int) -> int:
        """Return the rows from the start of one epoch to the start of the next, padding included.

        Example:
            >>> [each.epoch_length(11, 4) for each in Remainder]
            [11, 8, 12]
        """
        whole_batches, rest = divmod(num_examples, global_batch_size)
        if self is Remainder.CARRY:
            return num_examples
        if self is Remainder.PAD and rest:
            whole_batches += 1
        return whole_batches * global_batch_size

    @property
    def has_mask(self) -> bool:
        """Whether batches hold `_mask`, since some rows may be padding."""
        return self is Remainder.PAD

    @property
    def allows_new_batch_size(self) -> bool:
        """Whether a restored run may go on with another batch size: no epoch starts a batch."""
        return self is Remainder.CARRY

    def describe(self, num_examples: int, global_batch_size: int) -> str:
        """Return what becomes of the examples of an epoch that do not fill a batch."""
        if self is Remainder.CARRY:
            return "batches go on with the next epoch"
        difference = self.epoch_length(num_examples, global_batch_size) - num_examples
        if self is Remainder.PAD:
            return f"{count_text(difference, 'row')} of zeros at the end of each epoch"
        return f"{count_text(-difference, 'example')} left out of each epoch"


class Exhausted(enum.StrEnum):
    """What happens where a source has no rows left."""

    STOP = "stop"
    """The run ends before the first row that the source lacks."""
    REDISTRIBUTE = "redistribute"
    """The other sources of the stage get its rows, in proportion to their weights, until all are
    used up."""

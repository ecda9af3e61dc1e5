# SPDX-License-Identifier: Apache-2.0
"""The policies of a run that have names: in which order, and what happens at an epoch's end."""

import enum


class Shuffle(enum.StrEnum):
    """In which order the examples of an epoch come."""

    NONE = "none"
    """The order of the split, the same in each epoch."""
    GLOBAL = "global"
    """A permutation of the whole split, another one in each epoch, fixed by seed and epoch."""


class Remainder(enum.StrEnum):
    """What happens where an epoch does not end with a batch."""

    CARRY = "carry"
    """The batch goes on with the next epoch: nothing is lost, batches may span two epochs."""
    DROP = "drop"
    """The examples that do not fill a batch are left out of that epoch."""
    PAD = "pad"
    """The last batch of each epoch is filled with rows of zeros; `_mask` tells them apart."""

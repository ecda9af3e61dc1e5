# SPDX-License-Identifier: Apache-2.0
"""Which examples of a split a run is made of: all, or those that a filter selected.

An order counts numbers, 0 <= number < the examples of an epoch. A selection maps a number to the
index of an example in the split, which does not depend on the filter, and back. Nothing else knows
both.
"""

import dataclasses
import hashlib
from typing import TypeAlias

import numpy as np

from tfjax_batches.planning.order import Int64Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WholeSplit:
    """All examples of a split.

    Attributes:
        num_in_split: Examples in the split.
    """

    num_in_split: int

    @property
    def num_examples(self) -> int:
        """Examples of an epoch."""
        return self.num_in_split

    @property
    def fingerprint(self) -> list[str]:
        """What identifies the selection, as JSON; empty: nothing is left out."""
        return []

    def examples_at(self, numbers: Int64Array) -> Int64Array:
        """Return the index in the split of each number, both int64[n]."""
        return numbers

    def numbers_of(self, examples: Int64Array) -> Int64Array:
        """Return the number of each example, both int64[n]; -1: there is no such example."""
        return np.where((examples >= 0) & (examples < self.num_in_split), examples, -1)

    def describe(self) -> str:
        """Return how many examples there are."""
        return f"{self.num_in_split:,} examples"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilteredSplit:
    """The examples of a split that a filter selected; equal where name and ids are.

    Attributes:
        name: The filter's name.
        ids: int64[n], indices in the split, rising. May be mapped from a file.
        num_in_split: Examples in the split.
        digest: Digest of the ids: equal digests mean equal ids.
    """

    name: str
    ids: Int64Array = dataclasses.field(repr=False, compare=False)
    num_in_split: int
    digest: str

    @property
    def num_examples(self) -> int:
        """Examples of an epoch."""
        return len(self.ids)

    @property
    def fingerprint(self) -> list[str]:
        """What identifies the selection, as JSON."""
        return [self.name, self.digest]

    def examples_at(self, numbers: Int64Array) -> Int64Array:
        """Return the index in the split of each number, both int64[n]."""
        return self.ids[numbers]

    def numbers_of(self, examples: Int64Array) -> Int64Array:
        """Return the number of each example, both int64[n]; -1: the filter left it out."""
        found = np.minimum(np.searchsorted(self.ids, examples), len(self.ids) - 1)
        return np.where(self.ids[found] == examples, found, -1)

    def describe(self) -> str:
        """Return how many of how many examples were selected, and by which filter.

        Example:
            >>> import numpy as np
            >>> ids = np.array([2, 5])
            >>> digest = digest_ids(ids)
            >>> FilteredSplit(name="even", ids=ids, num_in_split=9, digest=digest).describe()
            '2 of 9 examples (filter even)'
        """
        return f"{len(self.ids)} of {self.num_in_split} examples (filter {self.name})"


Selection: TypeAlias = WholeSplit | FilteredSplit


def digest_ids(ids: Int64Array) -> str:
    """Return 16 hex digits of the SHA-256 of ids, int64[n], on machines of any byte order."""
    plain = np.ascontiguousarray(ids, "<i8").view(np.ndarray)
    return hashlib.sha256(plain.data).hexdigest()[:16]

# SPDX-License-Identifier: Apache-2.0
"""Which examples of a split a run is made of, where it is not all of them.

A plan counts places, 0 <= place < the number of those kept; here a place becomes the index of an
example in the split, which is the same whatever is kept. Nothing else knows of both.
"""

import dataclasses
import hashlib

import numpy as np

from tfjax_batches.planning.order import Int64Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The examples of a split that a filter keeps; equal where name and ids are.

    Attributes:
        name: The filter's name.
        ids: int64[kept], indices in the split, rising. May be mapped from a file.
        num_in_split: Examples in the split.
        digest: Of the ids: two of one digest hold the same ones.
    """

    name: str
    ids: Int64Array = dataclasses.field(repr=False, compare=False)
    num_in_split: int
    digest: str

    def describe(self) -> str:
        """Return how many are kept of how many, and by what.

        Example:
            >>> ids = np.array([2, 5])
            >>> Selection(
            ...     name="even", ids=ids, num_in_split=9, digest=digest_ids(ids)
            ... ).describe()
            '2 of 9 examples (kept by even)'
        """
        return f"{len(self.ids)} of {self.num_in_split} examples (kept by {self.name})"


def digest_ids(ids: Int64Array) -> str:
    """Return 16 characters that stand for some ids (int64[n]), on machines of any byte order."""
    plain = np.ascontiguousarray(ids, "<i8").view(np.ndarray)
    return hashlib.sha256(plain.data).hexdigest()[:16]

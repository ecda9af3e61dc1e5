# SPDX-License-Identifier: Apache-2.0
"""Which examples of a split a run is made of, where a filter selected some.

A plan counts places, 0 <= place < the number of selected examples. A selection maps a place to the
index of an example in the split, which does not depend on the filter. Nothing else knows both.
"""

import dataclasses
import hashlib

import numpy as np

from tfjax_batches.planning.order import Int64Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
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

    def describe(self) -> str:
        """Return how many of how many examples were selected, and by which filter.

        Example:
            >>> import numpy as np
            >>> ids = np.array([2, 5])
            >>> Selection(name="even", ids=ids, num_in_split=9, digest=digest_ids(ids)).describe()
            '2 of 9 examples (filter even)'
        """
        return f"{len(self.ids)} of {self.num_in_split} examples (filter {self.name})"


def digest_ids(ids: Int64Array) -> str:
    """Return 16 hex digits of the SHA-256 of ids, int64[n], on machines of any byte order."""
    plain = np.ascontiguousarray(ids, "<i8").view(np.ndarray)
    return hashlib.sha256(plain.data).hexdigest()[:16]

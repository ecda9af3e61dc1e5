# SPDX-License-Identifier: Apache-2.0
"""How the rows of a source fall into epochs.

A source's rows are numbered from 0 through all epochs: these are its places. Each epoch has
`length` of them. The first `num_examples` hold an example each; what is left is padding.
"""

import dataclasses

import numpy as np

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.schedule import MOST_POSITIONS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """The map place of a source → (epoch, place in the epoch), and its inverse.

    Attributes:
        num_examples: Examples to choose from in an epoch, at least 1.
        length: Places of an epoch. Fewer than `num_examples`: the last ones are left out. More: the
            rest is padding.
        count: Epochs; None: endless.
    """

    num_examples: int
    length: int
    count: int | None

    @property
    def num_places(self) -> int | None:
        """Places of all epochs, at most `MOST_POSITIONS`; None: endless."""
        return None if self.count is None else min(self.count * self.length, MOST_POSITIONS)

    @property
    def delivered(self) -> int:
        """Examples of each epoch that have a place."""
        return min(self.length, self.num_examples)

    @property
    def left_out(self) -> int:
        """Examples of each epoch that have none."""
        return self.num_examples - self.delivered

    def split(self, places: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return epoch and place in the epoch of each place, all int64[n]."""
        epochs, within = np.divmod(places, self.length)
        return epochs, within

    def join(self, epochs: Int64Array, within: Int64Array) -> Int64Array:
        """Return the place of each place in an epoch, all int64[n]: the inverse of `split`."""
        return epochs * self.length + within

    def examples_before(self, place: int) -> int:
        """Return how many examples come before a place, without padding."""
        epochs, within = divmod(place, self.length)
        return epochs * self.delivered + min(within, self.delivered)

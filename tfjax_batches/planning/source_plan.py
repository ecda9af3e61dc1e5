# SPDX-License-Identifier: Apache-2.0
"""Which example stands at which place of one source: epochs, order and selection in a row.

place ──epochs──► (epoch, place in the epoch) ──order──► number ──selection──► example
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.epoch_order import EpochOrder, numbers_at_each
from tfjax_batches.planning.epochs import Epochs
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.selection import Selection

PADDING = -1
"""The example index of rows that hold no example."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlan:
    """The map place of a source → (example, epoch), and its inverse.

    Attributes:
        epochs: How places fall into epochs.
        order: The order of an epoch.
        selection: Which example of the split each number is.
        seed: Seed of the order and of the source's random transforms.
    """

    epochs: Epochs
    order: EpochOrder
    selection: Selection
    seed: int

    def examples_at(self, places: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the example (-1: padding) and the epoch at each place, all int64[n]."""
        epochs, within = self.epochs.split(places)
        real = within < self.epochs.num_examples
        examples = np.full(len(places), PADDING)
        numbers = self.order.numbers_at(within[real], epochs[real])
        examples[real] = self.selection.examples_at(numbers)
        return examples, epochs

    def places_of(self, examples: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the place of each example in an epoch, all int64[n]; -1: it does not come."""
        numbers = self.selection.numbers_of(examples)
        places = np.full(len(examples), PADDING)
        (known,) = np.nonzero(numbers >= 0)
        within = self.order.places_of(numbers[known], epochs[known])
        comes = within < self.epochs.length
        if self.epochs.count is not None:
            comes &= epochs[known] < self.epochs.count
        places[known[comes]] = self.epochs.join(epochs[known], within)[comes]
        return places


def examples_at_each(
    plans: Sequence[SourcePlan], sources: npt.NDArray[np.integer], places: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return the example and the epoch at each place of its source, as `examples_at` for one.

    Args:
        plans: Sources without padding.
        sources: int[n], the source of each place, rising.
        places: int64[n].
    """
    lengths = np.array([plan.epochs.length for plan in plans])
    epochs, within = np.divmod(places, lengths[sources])
    examples = numbers_at_each([plan.order for plan in plans], sources, within, epochs)
    bounds = np.searchsorted(sources, np.arange(len(plans) + 1)).tolist()
    for plan, start, stop in zip(plans, bounds, bounds[1:], strict=False):
        examples[start:stop] = plan.selection.examples_at(examples[start:stop])
    return examples, epochs

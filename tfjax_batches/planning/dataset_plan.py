# SPDX-License-Identifier: Apache-2.0
"""The plan of a run of one dataset: a mixture of one source."""

from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.block_order import BlockShape
from tfjax_batches.planning.epoch_order import make_order
from tfjax_batches.planning.epochs import Epochs
from tfjax_batches.planning.mixture import Mixture
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.schedule import BatchSize, Schedule
from tfjax_batches.planning.selection import Selection
from tfjax_batches.planning.source_plan import SourcePlan


def plan_dataset(
    selection: Selection,
    *,
    global_batch_size: BatchSize,
    shuffle: Shuffle,
    shape: BlockShape | None = None,
    seed: int,
    num_epochs: int | None,
    remainder: Remainder,
) -> BatchPlan:
    """Return the plan of a run of one dataset.

    Args:
        selection: The examples of an epoch.
        global_batch_size: Rows of a step; under CARRY it may change at some steps.
        shuffle: Order within an epoch; a `Shuffle` or its name.
        shape: How BLOCK cuts an epoch; None for other orders.
        seed: Seed of that order.
        num_epochs: Passes over the examples; None: endless.
        remainder: What happens where an epoch does not end with a batch; a `Remainder` or its name.

    Raises:
        ConfigError: There would be no step at all.
    """
    shuffle, remainder = Shuffle(shuffle), Remainder(remainder)
    num_examples = selection.num_examples
    schedule = Schedule.of(global_batch_size)
    first_size = schedule.rows_at(0)
    epochs = Epochs(
        num_examples=num_examples,
        length=remainder.epoch_length(num_examples, first_size),
        count=num_epochs,
    )
    num_rows = epochs.num_places
    if epochs.length == 0 or (num_rows is not None and num_rows < first_size):
        pad = " or use remainder='pad'" if len(schedule.sizes) == 1 else ""
        raise ConfigError(
            f"remainder={remainder.value!r} needs examples for one whole batch; "
            f"{selection.describe()} with num_epochs={num_epochs} do not fill "
            f"global_batch_size={first_size}. Lower global_batch_size{pad}."
        )
    order = make_order(shuffle, num_examples, seed, shape)
    return BatchPlan(
        schedule=schedule,
        mixture=Mixture(),
        sources=(SourcePlan(epochs=epochs, order=order, selection=selection, seed=seed),),
        num_rows=num_rows,
        remainder=remainder,
    )

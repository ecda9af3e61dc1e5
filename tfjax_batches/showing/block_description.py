# SPDX-License-Identifier: Apache-2.0
"""The description of `shuffle="block"`: blocks, memory that they take, requests that they save."""

from collections.abc import Iterable, Sequence

from tfjax_batches.planning.block_order import BlockOrder
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.text.description import Table
from tfjax_batches.text.formatting import bytes_text


def describe_blocks(
    names: Iterable[str],
    plan: BatchPlan,
    layout: BatchLayout,
    process: int,
    example_bytes: Sequence[float],
) -> Table:
    """Return a row for each source whose order is that of blocks; empty where none is.

    Args:
        names: Of the sources.
        plan: The order.
        layout: Which rows each process holds.
        process: The process whose blocks are told.
        example_bytes: Mean size of the examples of each source; 0: not known.
    """
    rows = []
    for name, source, each_bytes in zip(names, plan.sources, example_bytes, strict=True):
        if isinstance(order := source.order, BlockOrder):
            shape = order.shape
            block_bytes = shape.block_size * each_bytes
            share = layout.process_batch_size(process) / layout.global_batch_size
            live = -(-min(shape.columns, order.num_blocks) * share // 1)
            rows.append(
                (
                    name,
                    f"{order.num_blocks:,} of {shape.block_size:,} examples",
                    bytes_text(round(block_bytes)) if block_bytes else "not known",
                    f"{live:,.0f}, {bytes_text(round(live * block_bytes))}",
                    f"{min(order.num_blocks + shape.columns, order.size):,}, not {order.size:,}",
                )
            )
    header = ("shuffled", "blocks", "a block", f"live on process {process}", "ranges of an epoch")
    return Table(tuple(rows), header)

# SPDX-License-Identifier: Apache-2.0
"""The description of `shuffle="block"`: blocks, memory that they take, requests that they save."""

import math
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
            block_bytes = min(shape.block_size, order.size) * each_bytes
            share = layout.process_batch_size(process) / layout.global_batch_size
            live = -(-min(shape.block_columns, order.num_blocks) * share // 1)
            # Rows of so many processes draw from one column.
            readers = max(
                min(layout.process_count, size // math.gcd(size, shape.block_columns))
                for _, size in plan.schedule.sizes
            )
            ranges = min(order.num_blocks * readers + shape.block_columns, order.size)
            rows.append(
                (
                    name,
                    f"{order.num_blocks:,} of {min(shape.block_size, order.size):,} examples",
                    bytes_text(round(block_bytes)) if block_bytes else "not known",
                    f"{live:,.0f}, {bytes_text(round(live * block_bytes))}",
                    f"{ranges:,}, not {order.size:,}",
                )
            )
    header = ("shuffled", "blocks", "a block", f"live on process {process}", "ranges of an epoch")
    return Table(tuple(rows), header)

# SPDX-License-Identifier: Apache-2.0
"""Blocks of rows that belong together: whether each process holds whole ones."""

import numpy as np

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.layout import BatchLayout


def check_blocks(layout: BatchLayout, rows_together: int, owner: str) -> None:
    """Raise unless each process holds whole blocks of rows alone.

    Args:
        layout: Which rows each process holds.
        rows_together: Rows of a block, which starts at a multiple of it.
        owner: Who needs that, for the message.

    Raises:
        LayoutError: The batch is not made of whole blocks, or the rows of a process are not.
    """
    rule = f"Rows that {owner} mixes are on one process, in blocks of {rows_together} rows"
    if layout.global_batch_size % rows_together:
        below = layout.global_batch_size // rows_together * rows_together
        nearest = f"{below} or {below + rows_together}" if below else f"{rows_together}"
        raise LayoutError(
            f"{rule}; global_batch_size={layout.global_batch_size} is no multiple of that. "
            f"The nearest valid global_batch_size is {nearest}."
        )
    for process_index, *_ in layout.replica_groups:
        blocks, counts = np.unique(layout.rows(process_index) // rows_together, return_counts=True)
        if (cut := blocks[counts != rows_together]).size:
            first = int(cut[0]) * rows_together
            raise LayoutError(
                f"{rule}; process {process_index} holds a part of rows {first} to "
                f"{first + rows_together - 1} ({layout.describe()}). Raise global_batch_size so "
                f"that each device's slice is a multiple of {rows_together} rows, or leave the "
                "transform out."
            )

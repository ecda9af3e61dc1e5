# SPDX-License-Identifier: Apache-2.0
"""Blocks of rows that belong together: whether each process holds whole ones."""

import numpy as np

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.layout import BatchLayout


def check_row_multiple(layout: BatchLayout, row_multiple: int, owner: str) -> None:
    """Raise unless each process holds whole blocks of rows alone.

    Args:
        layout: Which rows each process holds.
        row_multiple: Rows of a block, which starts at a multiple of it.
        owner: Who needs that, for the message.

    Raises:
        LayoutError: The batch is not made of whole blocks, or the rows of a process are not.
    """
    rule = f"Rows that {owner} mixes are on one process, in blocks of {row_multiple} rows"
    if layout.global_batch_size % row_multiple:
        below = layout.global_batch_size // row_multiple * row_multiple
        nearest = f"{below} or {below + row_multiple}" if below else f"{row_multiple}"
        raise LayoutError(
            f"{rule}; global_batch_size={layout.global_batch_size} is no multiple of that. "
            f"The nearest valid global_batch_size is {nearest}."
        )
    for process_index, *_ in layout.replica_groups:
        blocks, counts = np.unique(layout.rows(process_index) // row_multiple, return_counts=True)
        if (cut := blocks[counts != row_multiple]).size:
            first = int(cut[0]) * row_multiple
            raise LayoutError(
                f"{rule}; process {process_index} holds a part of rows {first} to "
                f"{first + row_multiple - 1} ({layout.describe()}). Raise global_batch_size so "
                f"that each device's slice is a multiple of {row_multiple} rows, or leave the "
                "transform out."
            )

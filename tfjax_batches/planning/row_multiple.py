# SPDX-License-Identifier: Apache-2.0
"""Rows that a transform mixes must be together on one process."""

import numpy as np

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.text.formatting import nearest_multiples


def check_row_multiple(layout: BatchLayout, row_multiple: int, owner: str) -> None:
    """Check that each process holds all or none of the rows from one multiple to the next.

    Raises:
        LayoutError: It does not, or the batch size is no multiple of `row_multiple`; the message
            names `owner`, the transform that mixes these rows.
    """
    rule = f"{owner} mixes {row_multiple} consecutive rows, which must be on one process"
    if layout.global_batch_size % row_multiple:
        raise LayoutError(
            f"{rule}; global_batch_size={layout.global_batch_size} is no multiple of that. The "
            "nearest valid global_batch_size is "
            f"{nearest_multiples(layout.global_batch_size, row_multiple)}."
        )
    for process_index, *_ in layout.replica_groups:
        multiples, counts = np.unique(
            layout.rows(process_index) // row_multiple, return_counts=True
        )
        if np.any(counts != row_multiple):
            first = int(multiples[counts != row_multiple][0]) * row_multiple
            raise LayoutError(
                f"{rule}; process {process_index} holds only some of rows {first} to "
                f"{first + row_multiple - 1} ({layout.describe().title}). Raise global_batch_size "
                f"so that each device's slice is a multiple of {row_multiple} rows, or leave the "
                "transform out."
            )

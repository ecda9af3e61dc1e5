# SPDX-License-Identifier: Apache-2.0
"""Rows that are mixed are on one process."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import layouts
from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.row_multiple import check_row_multiple


@given(layout=layouts(), row_multiple=st.integers(1, 6))
def test_check_row_multiple_passes_only_where_mixed_rows_are_together(
    layout: BatchLayout, row_multiple: int
) -> None:
    size = layout.global_batch_size
    whole = size % row_multiple == 0 and all(
        len(set(rows) & set(range(first, first + row_multiple))) in (0, row_multiple)
        for process_index in set(layout.process_of_device)
        for rows in [layout.rows(process_index).tolist()]
        for first in range(0, size, row_multiple)
    )
    try:
        check_row_multiple(layout, row_multiple, "mixup")
    except LayoutError:
        assert not whole
    else:
        assert whole


def test_check_row_multiple_names_process_rows_and_fix() -> None:
    owners = np.array([0, 1, 1, 0])
    layout = BatchLayout.simulate({"data": 4}, "data", 4, owners)
    with pytest.raises(
        LayoutError,
        match=r"3\. mixup\(0\.2\) mixes 2 .*process 0 .*rows 0 to 1 .*global_batch_size .* 2 rows",
    ):
        check_row_multiple(layout, 2, "3. mixup(0.2)")
    layout = BatchLayout.simulate({"data": 4}, "data", 8, owners)
    check_row_multiple(layout, 2, "mixup")
    with pytest.raises(LayoutError, match=r"mixup .*global_batch_size=8 .* 6 or 9\."):
        check_row_multiple(layout, 3, "mixup")
    with pytest.raises(LayoutError, match=r"global_batch_size is 16\."):
        check_row_multiple(layout, 16, "mixup")

# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import layouts
from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.row_multiple import check_row_multiple


@given(layout=layouts(), row_multiple=st.integers(1, 6))
def test_check_blocks_passes_just_where_no_block_is_cut(
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


def test_check_blocks_names_process_rows_and_mend() -> None:
    owners = np.array([0, 1, 1, 0])
    layout = BatchLayout.simulate({"data": 4}, "data", 4, owners)
    with pytest.raises(LayoutError) as caught:
        check_row_multiple(layout, 2, "3. mixup(0.2)")
    message = str(caught.value)
    assert "Rows that 3. mixup(0.2) mixes are on one process, in blocks of 2 rows" in message
    assert "process 0 holds a part of rows 0 to 1" in message
    assert "Raise global_batch_size so that each device's slice is a multiple of 2" in message
    check_row_multiple(BatchLayout.simulate({"data": 4}, "data", 8, owners), 2, "mixup")
    with pytest.raises(LayoutError, match=r"nearest valid global_batch_size is 6 or 9"):
        check_row_multiple(BatchLayout.simulate({"data": 4}, "data", 8, owners), 3, "mixup")
    with pytest.raises(LayoutError, match=r"nearest valid global_batch_size is 16"):
        check_row_multiple(BatchLayout.simulate({"data": 4}, "data", 8, owners), 16, "mixup")

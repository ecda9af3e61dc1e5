# SPDX-License-Identifier: Apache-2.0
"""The description of blocks, for one process of several."""

from tfjax_batches.planning.block_order import BlockShape
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.selection import WholeSplit
from tfjax_batches.showing.block_description import describe_blocks


def test_blocks_of_one_process_of_four_are_told() -> None:
    plan = plan_dataset(
        WholeSplit(num_in_split=1000),
        global_batch_size=16,
        shuffle=Shuffle.BLOCK,
        shape=BlockShape(block_size=10, block_columns=16),
        seed=0,
        num_epochs=None,
        remainder=Remainder.CARRY,
    )
    layout = BatchLayout.simulate({"data": 4}, "data", 16, process_of_device=4)
    table = describe_blocks(["numbers"], plan, layout, 1, [50.0])
    assert table.rows == (
        ("numbers", "100 of 10 examples", "500 B", "4, 2,000 B", "116, not 1,000"),
    )

# SPDX-License-Identifier: Apache-2.0
"""Tests of `tfjax_batches/pipeline/live_blocks.py`."""

import numpy as np

from tfjax_batches.pipeline.live_blocks import LiveBlocks
from tfjax_batches.planning.order import Int64Array


def records_of(block: int, places: Int64Array) -> list[bytes]:
    return [b"%d.%d" % (block, place) for place in places]


def put(live: LiveBlocks, block: int, places: Int64Array) -> None:
    live.want(block, len(places), 10)
    live.put(block, places, np.array(records_of(block, places), object))


def test_records_are_taken_once() -> None:
    live = LiveBlocks(3)
    put(live, 7, np.arange(3))
    blocks, places = np.zeros(2, np.int64), np.array([2, 0])
    assert live.take([7], blocks, places).tolist() == [b"7.2", b"7.0"]
    assert live.take([7], blocks, places).tolist() == [None, None]
    assert live.take([7], blocks[:1], np.array([1])).tolist() == [b"7.1"]
    assert live.num_wanted == 0


def test_lines_of_many_blocks_are_used_again() -> None:
    live = LiveBlocks(2)
    for first in range(0, 300, 50):
        blocks = list(range(first, first + 50))
        for block in blocks:
            put(live, block, np.arange(2))
        of_block = np.repeat(np.arange(50), 2)
        places = np.tile(np.arange(2), 50)
        found = live.take(blocks, of_block, places)
        expected = [record for block in blocks for record in records_of(block, np.arange(2))]
        assert found.tolist() == expected
    assert len(live._records) <= 128


def test_block_without_line_ends_at_once_and_holds_nothing() -> None:
    live = LiveBlocks(2)
    put(live, 4, np.arange(1))
    assert live.ends([4, 5]).tolist() == [10, 0]
    assert live.take([5], np.zeros(1, np.int64), np.zeros(1, np.int64)).tolist() == [None]
    live.want(5, 2, 20)
    live.forget(5, 2)
    assert live.ends([4, 5]).tolist() == [10, 0]

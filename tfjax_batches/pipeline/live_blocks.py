# SPDX-License-Identifier: Apache-2.0
"""The records of blocks, from the read of a block until its last record is taken.

Holds at all times: a block has a line while records of it are wanted. Of a record that has come and
is not taken, its place in that line holds the bytes; every other place holds None.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.order import Int64Array

_NO_LINE = 0  # of all blocks that have none; it holds nothing
_LINES_AT_FIRST = 16


class LiveBlocks:
    """Keeps records by block and place in it. Not safe to use from several threads at once.

    Args:
        block_size: Places of a block.
    """

    def __init__(self, block_size: int) -> None:
        self._line_of: dict[int, int] = {}
        self._records = np.full((_LINES_AT_FIRST, block_size), None, object)
        # Of each line: records that are wanted and not taken; the step up to which all are wanted.
        self._left = np.zeros(_LINES_AT_FIRST, np.int64)
        self._ends = np.zeros(_LINES_AT_FIRST, np.int64)
        self._left[_NO_LINE] = 1
        self._free = list(range(1, _LINES_AT_FIRST))

    @property
    def num_wanted(self) -> int:
        """Records that are wanted and not taken."""
        return int(self._left.sum()) - 1

    def want(self, block: int, count: int, end: int) -> None:
        """Give a block a line, until so many more of its records are taken.

        Args:
            block: Number of the block.
            count: Records that are wanted.
            end: The step before which this process takes no others of the block.
        """
        if (line := self._line_of.get(block)) is None:
            if not self._free:
                self._grow()
            line = self._line_of[block] = self._free.pop()
        self._left[line] += count
        self._ends[line] = end

    def ends(self, blocks: Sequence[int]) -> Int64Array:
        """Return the `end` of each block, int64[n]; 0: it has no line."""
        return self._ends[self._lines(blocks)]

    def put(self, block: int, places: Int64Array, records: npt.NDArray[np.object_]) -> None:
        """Keep records of a block, object[n], at places of it, int64[n]."""
        self._records[self._line_of[block], places] = records

    def forget(self, block: int, count: int) -> None:
        """Want so many records of a block no longer."""
        self._left[self._line_of[block]] -= count
        self._free_lines([block])

    def take(
        self, blocks: Sequence[int], of_block: Int64Array, places: Int64Array
    ) -> npt.NDArray[np.object_]:
        """Return records, object[n], and forget them; None: it is not here.

        Args:
            blocks: Numbers of some blocks.
            of_block: int64[n], index of each record's block in `blocks`.
            places: int64[n], the place of each in its block.
        """
        lines = self._lines(blocks)[of_block]
        records = self._records[lines, places]
        self._records[lines, places] = None
        is_here = np.fromiter((record is not None for record in records), bool, len(records))
        self._left -= np.bincount(lines[is_here], minlength=len(self._left))
        self._free_lines(blocks)
        return records

    def _lines(self, blocks: Sequence[int]) -> Int64Array:
        return np.fromiter(
            (self._line_of.get(block, _NO_LINE) for block in blocks), np.int64, len(blocks)
        )

    def _free_lines(self, blocks: Sequence[int]) -> None:
        """Take the lines of blocks that need them no longer."""
        lines = self._lines(blocks)
        for index in np.flatnonzero(self._left[lines] == 0).tolist():
            line = self._line_of.pop(blocks[index])
            self._ends[line] = 0
            self._free.append(line)

    def _grow(self) -> None:
        count = len(self._left)
        self._free = list(range(count, 2 * count))
        self._records = np.concatenate([self._records, np.full_like(self._records, None)])
        self._left, self._ends = (np.append(x, np.zeros_like(x)) for x in (self._left, self._ends))

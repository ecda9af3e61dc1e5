# SPDX-License-Identifier: Apache-2.0
"""The order that shuffles blocks of examples, so that a process reads whole blocks, each once.

The blocks of an epoch are shuffled and laid end to end, and so are the examples within each block.
This sequence begins anywhere, so that the last block, which may be shorter, falls anywhere. Each
row of the batch walks through a column of it. So a batch has examples of as many blocks as there
are columns, and the only blocks that two processes may read are those at the ends of columns.
"""

import bisect
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.columns import ColumnStages
from tfjax_batches.planning.order import Int64Array, permute, unpermute
from tfjax_batches.planning.policies import Shuffle
from tfjax_batches.planning.splitmix import mix, mix_seed

Cipher = Callable[[Int64Array, int, int, Int64Array], Int64Array]
"""`permute` or `unpermute`."""

Shares: TypeAlias = tuple[tuple[int, Fraction], ...]
"""(First place of the source through all epochs, its share of each batch from there on), in order
of the place, from 0."""

WHOLE_SHARE: Shares = ((0, Fraction(1)),)
"""Of the only source."""

# Keep the orders within blocks, and where epochs begin, independent of the order of the blocks.
_WITHIN = np.uint64(0xB10C0F7A11E5EED5)
_ROTATION = np.uint64(0x90A7E5B10C5EED07)


MOST_LIVE_BYTES = 2**30
"""Of the blocks of a batch, over all sources and processes."""

_BLOCK_BYTES = 2**20
_BLOCKS_OF_COLUMN = 4
_MOST_COLUMNS = 4  # times the largest batch: each has a block in memory


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """How an epoch is cut.

    Attributes:
        block_size: Numbers of a block; the last block may have fewer.
        block_columns: Columns of an epoch.
        chosen: Names of the fields above that a user has not given.
    """

    block_size: int
    block_columns: int
    chosen: frozenset[str] = dataclasses.field(default=frozenset(), compare=False)


def choose_columns(sizes: Iterable[int]) -> int:
    """Return the columns for batches of some sizes: each size divides them, if they are not many.

    Where a size does not, the rows of several processes draw from one column.

    Example:
        >>> choose_columns([256, 512]), choose_columns([384, 512]), choose_columns([250, 256])
        (512, 1536, 256)
    """
    sizes = list(sizes)
    common = math.lcm(*sizes)
    return common if common <= _MOST_COLUMNS * max(sizes) else max(sizes)


def choose_block_size(
    num_examples: int, example_bytes: float, columns: int, live_bytes: float = MOST_LIVE_BYTES
) -> int:
    """Return the examples of a block: large reads, little memory, and yet a good shuffle.

    A block has about 1 MiB, the blocks that a batch draws from have at most `live_bytes`, and a
    column has at least 4 blocks.

    Args:
        num_examples: Examples of an epoch.
        example_bytes: Mean size of an example.
        columns: Columns of an epoch, each of which has one block being read.
        live_bytes: Bytes of these blocks, at most.

    Example:
        >>> choose_block_size(1_281_167, 110_000, columns=4096)
        2
        >>> choose_block_size(364_000_000, 2_000, columns=1024)
        524
    """
    block_bytes = min(_BLOCK_BYTES, live_bytes / columns)
    by_bytes = int(block_bytes / max(1, example_bytes))
    return max(1, min(by_bytes, num_examples // (_BLOCKS_OF_COLUMN * columns)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockOrder:
    """An order of blocks, and of the examples within each, fixed by seed and epoch.

    Attributes:
        size: Numbers of an epoch.
        seed: Seed of the order.
        shape: How an epoch is cut.
        shares: Of the source; columns follow the rows that draw from them.

    Example:
        >>> order = BlockOrder(size=10, seed=1, shape=BlockShape(block_size=3, block_columns=2))
        >>> numbers = order.numbers_at(np.arange(10), np.zeros(10, np.int64))
        >>> (numbers[0::2] // 3).tolist(), (numbers[1::2] // 3).tolist()
        ([2, 3, 1, 1, 1], [0, 0, 0, 2, 2])
    """

    size: int
    seed: int
    shape: BlockShape
    shares: Shares = WHOLE_SHARE

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Its policy and its shape; its shares are those of the mixture."""
        shape = {"block_size": self.shape.block_size, "block_columns": self.shape.block_columns}
        return {"shuffle": Shuffle.BLOCK.value, **shape}

    @property
    def num_blocks(self) -> int:
        """Blocks of an epoch."""
        return -(-self.size // self.shape.block_size)

    def numbers_at(self, places: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the number at each place of an epoch, all int64[n]."""
        items = np.empty_like(places)
        for epoch, here in _each(epochs):
            items[here] = self._columns_of(epoch).items_at(places[here])
        items = (items + self._rotations(epochs)) % self.size
        blocks, within = np.divmod(items, self.shape.block_size)
        blocks = self._shuffle_blocks(permute, blocks, epochs)
        return blocks * self.shape.block_size + self._shuffle_within(
            permute, within, blocks, epochs
        )

    def places_of(self, numbers: Int64Array, epochs: Int64Array) -> Int64Array:
        """Return the place of each number in an epoch, all int64[n]."""
        blocks, within = np.divmod(numbers, self.shape.block_size)
        within = self._shuffle_within(unpermute, within, blocks, epochs)
        blocks = self._shuffle_blocks(unpermute, blocks, epochs)
        items = (blocks * self.shape.block_size + within - self._rotations(epochs)) % self.size
        places = np.empty_like(items)
        for epoch, here in _each(epochs):
            places[here] = self._columns_of(epoch).places_of(items[here])
        return places

    def _columns_of(self, epoch: int) -> ColumnStages:
        """Return the columns of an epoch."""
        first = epoch * self.size
        begun = bisect.bisect_right(self.shares, first, key=lambda stage: stage[0])
        stages = [(0, self.shares[begun - 1][1])]
        stages += [(s - first, share) for s, share in self.shares[begun:] if s < first + self.size]
        return _make_columns(self.size, self.shape.block_columns, tuple(stages))

    def _rotations(self, epochs: Int64Array) -> Int64Array:
        """Return the item at which each epoch begins, int64[n]."""
        keys = mix(mix_seed(self.seed) ^ _ROTATION ^ mix(epochs.astype(np.uint64) + np.uint64(1)))
        return (keys % np.uint64(self.size)).astype(np.int64)

    def _shuffle_blocks(self, cipher: Cipher, blocks: Int64Array, epochs: Int64Array) -> Int64Array:
        """Apply a cipher to whole blocks; one that is shorter stays the last."""
        whole = self.size // self.shape.block_size
        return _apply(cipher, blocks, blocks < whole, whole, self.seed, epochs)

    def _shuffle_within(
        self, cipher: Cipher, within: Int64Array, blocks: Int64Array, epochs: Int64Array
    ) -> Int64Array:
        """Apply a cipher of each block and epoch to places within the block."""
        whole, rest = divmod(self.size, self.shape.block_size)
        seed = int(mix(mix_seed(self.seed) ^ _WITHIN)[0])
        keys = epochs * self.num_blocks + blocks
        within = _apply(cipher, within, blocks < whole, self.shape.block_size, seed, keys)
        return _apply(cipher, within, blocks == whole, rest, seed, keys)


@functools.lru_cache(maxsize=64)
def _make_columns(size: int, count: int, stages: Shares) -> ColumnStages:
    return ColumnStages(size=size, count=count, stages=stages)


def _each(epochs: Int64Array) -> list[tuple[int, npt.NDArray[np.bool_]]]:
    """Return each epoch once, and where it stands."""
    return [(epoch, epochs == epoch) for epoch in np.unique(epochs).tolist()]


def _apply(
    cipher: Cipher,
    values: Int64Array,
    here: npt.NDArray[np.bool_],
    size: int,
    seed: int,
    keys: Int64Array,
) -> Int64Array:
    """Return values, of which some are permuted, each in the order of its key."""
    found = values.copy()
    if here.any():
        found[here] = cipher(values[here], size, seed, keys[here])
    return found

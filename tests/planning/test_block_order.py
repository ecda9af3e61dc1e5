# SPDX-License-Identifier: Apache-2.0
"""Laws 8 and 9 for the order of blocks, alone and in mixtures; its values are pinned."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.planning.block_order import BlockOrder, BlockShape, choose_block_size
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.mixture_plan import MixedSource, plan_mixture
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Exhausted, Remainder, Shuffle
from tfjax_batches.planning.selection import WholeSplit

GOLDEN = [
    [2, 12, 10, 20, 15, 8, 22, 14, 9, 21, 13, 11, 5, 17, 3, 7, 19, 1, 6, 16, 0, 4, 18],
    [8, 12, 3, 11, 15, 2, 10, 13, 18, 5, 21, 17, 6, 22, 16, 4, 20, 19, 7, 1, 9, 14, 0],
]

GOLDEN_MIXTURE = [
    *([22, 12, 8, 20], [4, 5, 13, 6], [9, 21, 3, 16], [15, 6, 16, 20]),
    *([2, 17, 12, 7], [22, 4, 14, 19], [2, 18, 1, 10], [15, 8, 19, 3]),
]


@st.composite
def block_orders(draw: st.DrawFn) -> BlockOrder:
    shape = BlockShape(block_size=draw(st.integers(1, 40)), block_columns=draw(st.integers(1, 40)))
    return BlockOrder(
        size=draw(st.integers(1, 300)), seed=draw(st.integers(0, 2**64 - 1)), shape=shape
    )


@given(block_orders(), st.integers(0, 2**40))
def test_law_8_numbers_are_a_permutation_and_lead_back(order: BlockOrder, epoch: int) -> None:
    places, epochs = np.arange(order.size), np.full(order.size, epoch)
    numbers = order.numbers_at(places, epochs)
    np.testing.assert_array_equal(np.sort(numbers), places)
    np.testing.assert_array_equal(order.places_of(numbers, epochs), places)


@given(block_orders(), st.data())
def test_some_places_of_some_epochs_equal_the_whole(order: BlockOrder, data: st.DataObject) -> None:
    cells = st.tuples(st.integers(0, 3), st.integers(0, order.size - 1))
    epochs, places = np.array(data.draw(st.lists(cells, min_size=1, max_size=20))).T
    whole = [order.numbers_at(np.arange(order.size), np.full(order.size, e)) for e in range(4)]
    np.testing.assert_array_equal(order.numbers_at(places, epochs), np.stack(whole)[epochs, places])


def test_values_are_unchanged() -> None:
    """A run resumes by these values: a change needs another ORDER_VERSION."""
    order = BlockOrder(size=23, seed=7, shape=BlockShape(block_size=4, block_columns=3))
    found = [order.numbers_at(np.arange(23), np.full(23, epoch)).tolist() for epoch in (0, 5)]
    assert found == GOLDEN


def test_values_of_a_mixture_are_unchanged() -> None:
    """A stage in which the share of a source stays, as that of `a`, moves none of its rows."""
    block: dict[str, Any] = {
        "shuffle": Shuffle.BLOCK,
        "shape": BlockShape(block_size=4, block_columns=3),
    }
    source = MixedSource(selection=WholeSplit(num_in_split=23), max_epochs=None, **block)
    plan = plan_mixture(
        dict.fromkeys("abc", source),
        [(0, {"a": 2, "b": 1, "c": 1}), (2, {"a": 2, "b": 2}), (5, {"a": 1, "b": 3})],
        global_batch_size=4,
        seed=7,
        exhausted=Exhausted.STOP,
    )
    found = [step.examples.tolist() for step in plan.plan_steps(range(8), np.arange(4))]
    assert found == GOLDEN_MIXTURE


def test_seeds_epochs_and_blocks_have_other_orders() -> None:
    shape, places = BlockShape(block_size=50, block_columns=10), np.arange(1000)
    found = [
        BlockOrder(size=1000, seed=seed, shape=shape).numbers_at(places, np.full(1000, epoch))
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (found[one] == found[other]).mean() < 0.02
    numbers = found[0].reshape(100, 10).T.ravel()  # column by column
    within = [(numbers[numbers // 50 == block] % 50).tolist() for block in range(20)]
    assert len({tuple(each) for each in within}) == 20


def amplification(plan: BatchPlan, steps: range, processes: int, source: int = 0) -> float:
    """Return how often a block of a source is read by the processes, on average."""
    rows = plan.global_batch_size
    order = plan.sources[source].order
    assert isinstance(order, BlockOrder)
    keys = []
    for step in plan.plan_steps(steps, np.arange(rows)):
        here = step.sources == source
        blocks = step.examples[here] // order.shape.block_size + step.epochs[here] * order.size
        keys.append(blocks * processes + step.rows[here] * processes // rows)
    read = np.unique(np.concatenate(keys))
    return len(read) / len(np.unique(read // processes))


@given(st.integers(2000, 20_000), st.integers(1, 16), st.integers(1, 4), st.integers(0, 9))
def test_law_9_processes_read_each_block_once(n: int, size: int, columns: int, seed: int) -> None:
    columns *= 16
    plan = plan_dataset(
        WholeSplit(num_in_split=n),
        global_batch_size=columns,
        shuffle=Shuffle.BLOCK,
        shape=BlockShape(block_size=size, block_columns=columns),
        seed=seed,
        num_epochs=None,
        remainder=Remainder.DROP,
    )
    epoch = range(plan.steps_per_epoch, 2 * plan.steps_per_epoch)
    for processes in (1, 2, 4, 8, 16):
        assert amplification(plan, epoch, processes) <= 1 + 1.2 * columns * size / n


WEIGHTS = {"a": 0.5, "b": 0.3, "c": 0.1, "d": 0.05, "e": 0.03, "f": 0.015, "g": 0.005}


@pytest.mark.parametrize("processes", [1, 4, 16])
def test_mixture_processes_read_few_blocks_of_others(processes: int) -> None:
    """Sources of 5 % and more are read 1.5 times at most by design, and about once in fact."""
    stages: list[Any] = [(0, WEIGHTS), (250, {**WEIGHTS, "a": 0.2})]
    shape = BlockShape(block_size=8, block_columns=256)
    plan = plan_mixture(
        {
            name: MixedSource(
                selection=WholeSplit(num_in_split=10**6),
                shuffle=Shuffle.BLOCK,
                max_epochs=None,
                shape=shape,
            )
            for name in WEIGHTS
        },
        stages,
        global_batch_size=256,
        seed=0,
        exhausted=Exhausted.STOP,
    )
    found = [amplification(plan, range(500), processes, source) for source in range(len(WEIGHTS))]
    assert max(found[:4]) < 1.1
    assert max(found) < 1.5


@pytest.mark.parametrize(
    ("num_examples", "example_bytes", "columns", "size"),
    [
        (10**9, 2**10, 256, 1024),  # 1 MiB a block
        (10**9, 2**10, 2**16, 16),  # 1 GiB in all
        (10_000, 10, 256, 9),  # 4 blocks a column
        (100, 0, 256, 1),
        (10**6, 10**9, 8, 1),
    ],
)
def test_choose_block_size(
    num_examples: int, example_bytes: float, columns: int, size: int
) -> None:
    assert choose_block_size(num_examples, example_bytes, columns) == size

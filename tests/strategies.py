# SPDX-License-Identifier: Apache-2.0
"""Hypothesis generators of layouts and plans."""

import itertools
import math
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.block_order import BlockShape
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.mixture_plan import MixedSource, plan_mixture
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Exhausted, Remainder, Shuffle
from tfjax_batches.planning.schedule import BatchSize
from tfjax_batches.planning.selection import WholeSplit

AXES = ("data", "model", "replica")


@st.composite
def layouts(draw: st.DrawFn, global_batch_size: int | None = None) -> BatchLayout:
    """Meshes of one to three axes in any order, any owners of devices, any data axes.

    Args:
        draw: Passed by Hypothesis.
        global_batch_size: Size of each batch, which the data axes divide. None: any.
    """
    names = draw(st.permutations(AXES))[: draw(st.integers(1, 3))]
    sizes = [draw(st.sampled_from((1, 2, 3, 4))) for _ in names]
    if global_batch_size is not None:
        sizes = [math.gcd(size, global_batch_size) for size in sizes]
    mesh_shape = dict(zip(names, sizes, strict=True))
    devices = math.prod(sizes)
    owners = draw(owners_of_devices(devices)).reshape(sizes)
    candidates = [
        axes
        for count in range(len(names) + 1)
        for axes in itertools.permutations(names, count)
        if global_batch_size is None
        or global_batch_size % math.prod(mesh_shape[axis] for axis in axes) == 0
    ]
    data_axes = draw(st.sampled_from(candidates))
    split = math.prod(mesh_shape[axis] for axis in data_axes)
    rows = global_batch_size or split * draw(st.integers(1, 4))
    return BatchLayout.simulate(mesh_shape, [data_axes or None], rows, owners)


@st.composite
def owners_of_devices(draw: st.DrawFn, devices: int) -> np.ndarray:
    """Owner of each device: equal runs, a permutation of these, or anything at all."""
    kind = draw(st.sampled_from(("runs", "permuted", "uneven")))
    if kind == "uneven":
        drawn = draw(st.lists(st.integers(0, 5), min_size=devices, max_size=devices))
        # Every process of a run owns some device.
        return np.unique(drawn, return_inverse=True)[1]
    count = draw(st.sampled_from([n for n in range(1, devices + 1) if devices % n == 0]))
    owners = np.repeat(np.arange(count), devices // count)
    return owners if kind == "runs" else np.array(draw(st.permutations(owners.tolist())))


@st.composite
def orders(draw: st.DrawFn) -> dict[str, Any]:
    """A policy of order, with a shape of blocks where it needs one."""
    shuffle = draw(st.sampled_from(Shuffle))
    if shuffle is not Shuffle.BLOCK:
        return {"shuffle": shuffle}
    shape = BlockShape(block_size=draw(st.integers(1, 9)), block_columns=draw(st.integers(1, 9)))
    return {"shuffle": shuffle, "shape": shape}


@st.composite
def plans(
    draw: st.DrawFn,
    remainder: Remainder | None = None,
    max_examples: int = 40,
    num_epochs: st.SearchStrategy[int | None] | None = None,
) -> BatchPlan:
    """Plans that have at least one step."""
    num_examples = draw(st.integers(1, max_examples))
    kind = remainder or draw(st.sampled_from(Remainder))
    largest = 2 * num_examples if kind is Remainder.PAD else num_examples
    return plan_dataset(
        WholeSplit(num_in_split=num_examples),
        global_batch_size=draw(st.integers(1, largest)),
        **draw(orders()),
        seed=draw(st.integers(0, 2**63 - 1)),
        num_epochs=draw(num_epochs if num_epochs is not None else st.integers(1, 3)),
        remainder=kind,
    )


@st.composite
def batch_sizes(draw: st.DrawFn) -> list[tuple[int, int]]:
    """One to four batch sizes by step."""
    starts = sorted(draw(st.sets(st.integers(1, 12), max_size=3)))
    return [(start, draw(st.integers(1, 9))) for start in [0, *starts]]


@st.composite
def plans_of_sizes(draw: st.DrawFn) -> BatchPlan:
    """Plans of one dataset or of several, whose batches change their size; with a step."""
    if draw(st.booleans()):
        return draw(mixture_plans(batch_sizes()))
    sizes = draw(batch_sizes())
    return plan_dataset(
        WholeSplit(num_in_split=draw(st.integers(sizes[0][1], 40))),
        global_batch_size=sizes,
        **draw(orders()),
        seed=draw(st.integers(0, 2**63 - 1)),
        num_epochs=draw(st.none() | st.integers(1, 4)),
        remainder=Remainder.CARRY,
    )


@st.composite
def mixture_plans(draw: st.DrawFn, sizes: st.SearchStrategy[BatchSize] | None = None) -> BatchPlan:
    """Plans of 1 to 20 sources in 1 to 3 stages, some of them used up; with at least one step."""
    count = draw(st.integers(1, 20))
    names = [f"source{number:02}" for number in range(count)]
    sources = {
        name: MixedSource(
            selection=WholeSplit(num_in_split=draw(st.integers(1, 60))),
            **draw(orders()),
            max_epochs=draw(st.none() | st.integers(1, 3)),
        )
        for name in names
    }
    weights = st.dictionaries(st.sampled_from(names), st.floats(1e-6, 1.0), min_size=1)
    later = sorted(draw(st.sets(st.integers(1, 30), max_size=2)))
    try:
        return plan_mixture(
            sources,
            [(step, draw(weights)) for step in [0, *later]],
            global_batch_size=draw(st.integers(1, 8) if sizes is None else sizes),
            seed=draw(st.integers(0, 2**63 - 1)),
            exhausted=draw(st.sampled_from(Exhausted)),
        )
    except ConfigError:  # a source with fewer rows than a batch
        reject()

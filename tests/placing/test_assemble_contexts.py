# SPDX-License-Identifier: Apache-2.0
"""Batches do not depend on contexts, on what the source does next, or on each other's end."""

import contextlib
import functools
from collections.abc import Callable, Iterator

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches.features.paths import Path
from tfjax_batches.pipeline.host_batches import HostBatch
from tfjax_batches.placing.assemble import Assembler, DeviceBatch
from tfjax_batches.placing.prefetcher import Prefetcher

MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
ROWS = 8
STEPS = 6
# Beyond 4 KB a row, where JAX on CPU goes on using the memory of the host array.
WIDTH = 2048


def enter_mesh() -> contextlib.AbstractContextManager[object]:
    return jax.set_mesh(MESH)


CONTEXTS: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
    "mesh": enter_mesh,
    "default_device": lambda: jax.default_device(jax.devices()[3]),
    "x64": lambda: jax.enable_x64(True),
    "no x64": lambda: jax.enable_x64(False),
    "guard": lambda: jax.transfer_guard("disallow_explicit"),
}


def assembler(spec: PartitionSpec, **dtypes: type) -> Assembler:
    sharding = NamedSharding(MESH, spec)
    specs: dict[Path, jax.ShapeDtypeStruct] = {
        (name,): jax.ShapeDtypeStruct((ROWS, WIDTH), np.dtype(dtype), sharding=sharding)
        for name, dtype in dtypes.items()
    }
    return Assembler(specs, np.arange(ROWS))


def host_batches(**dtypes: type) -> Iterator[HostBatch]:
    for step in range(STEPS):
        yield {(name,): np.full((ROWS, WIDTH), step, dtype) for name, dtype in dtypes.items()}


def aligned(shape: tuple[int, ...]) -> np.ndarray:
    """Return float32 memory that starts where a device buffer may, so that JAX can share it."""
    raw = np.zeros(4 * np.prod(shape) + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    return raw[offset : offset + 4 * np.prod(shape)].view(np.float32).reshape(shape)


def check_all_shards(array: jax.Array, value: float) -> None:
    for shard in array.addressable_shards:
        np.testing.assert_array_equal(shard.data, np.full(shard.data.shape, value))


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_context_of_the_caller_changes_nothing(
    context: Callable[[], contextlib.AbstractContextManager[object]], depth: int
) -> None:
    dtypes = {"float": np.float32, "long": np.int64, "byte": np.uint8}
    place = assembler(PartitionSpec("data"), **dtypes)

    def batches() -> list[DeviceBatch]:
        with Prefetcher(host_batches(**dtypes), place, depth=depth) as batches:
            return list(batches)

    plain = batches()
    with context():
        inside = batches()
    assert len(plain) == len(inside) == STEPS
    for step, (one, other) in enumerate(zip(plain, inside, strict=True)):
        for path, dtype in zip(one, dtypes.values(), strict=True):
            assert one[path].dtype == other[path].dtype == dtype
            assert one[path].sharding == other[path].sharding
            assert one[path].committed == other[path].committed
            check_all_shards(other[path], step)


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("read_only_view", [False, True])
def test_source_that_reuses_its_memory_changes_no_batch(depth: int, read_only_view: bool) -> None:
    memory = aligned((ROWS, WIDTH))

    def source() -> Iterator[HostBatch]:
        for step in range(STEPS):
            memory[:] = step
            given = memory.view()
            given.flags.writeable = not read_only_view
            yield {("x",): given}
        memory[:] = -1

    place = assembler(PartitionSpec("data"), x=np.float32)
    with Prefetcher(source(), place, depth=depth) as batches:
        for step, batch in enumerate(list(batches)):
            check_all_shards(batch[("x",)], step)


@pytest.mark.parametrize("spec", [PartitionSpec("data"), PartitionSpec()])
def test_donated_batch_leaves_the_next_ones_and_its_replicas_alone(spec: PartitionSpec) -> None:
    """All batches and leaves are views of one read-only array: on CPU all may share its memory."""
    memory = aligned((ROWS, WIDTH))
    memory[:] = 7
    memory.flags.writeable = False
    raw = memory.base
    while raw is not None:
        raw.flags.writeable, raw = False, raw.base

    @functools.partial(jax.jit, donate_argnums=0)
    def step(batch: DeviceBatch) -> DeviceBatch:
        return {path: values + 1 for path, values in batch.items()}

    place = assembler(spec, one=np.float32, other=np.float32)
    source: Iterator[HostBatch] = iter([{("one",): memory, ("other",): memory}] * STEPS)
    with Prefetcher(source, place, depth=3) as batches:
        for batch in batches:
            check_all_shards(batch[("one",)], 7)
            result = jax.block_until_ready(step(batch))
            assert all(values.is_deleted() for values in batch.values())
            for values in result.values():
                check_all_shards(values, 8)
    assert (memory == 7).all()

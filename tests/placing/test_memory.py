# SPDX-License-Identifier: Apache-2.0
"""Long runs keep no memory, and closed iterators none at all."""

import gc
import resource
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches.pipeline.host_batches import HostBatch
from tfjax_batches.placing.assemble import Assembler
from tfjax_batches.placing.prefetcher import Prefetcher

ROWS, WIDTH = 64, 2**15  # float32: 8 MB a batch
STEPS = 300


def host_batches(steps: int) -> Iterator[HostBatch]:
    """Yield fresh memory each time, written to, so that it is resident."""
    for step in range(steps):
        values = np.full((ROWS, WIDTH), step, np.float32)
        values.flags.writeable = False
        yield {("x",): values}


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_prefetcher_many_batches_leave_memory_flat_and_close_frees_all() -> None:
    mesh = Mesh(np.array(jax.devices()), ("data",))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    spec = jax.ShapeDtypeStruct((ROWS, WIDTH), np.dtype(np.float32), sharding=sharding)
    place = Assembler({("x",): spec}, np.arange(ROWS))
    gc.collect()
    live_before = len(jax.live_arrays())
    resident = []
    with Prefetcher(host_batches(STEPS + 50), place, depth=2) as batches:
        for step in range(STEPS):
            batch = next(batches)
            assert float(batch[("x",)].addressable_shards[0].data[0, 0]) == step
            if step % 20 == 19:
                # What waits, and what the consumer holds.
                assert sum(a.shape == (ROWS, WIDTH) for a in jax.live_arrays()) <= 2 + 1
                resident.append(resident_bytes())
        del batch
    gc.collect()
    assert len(jax.live_arrays()) == live_before
    # Of the batches of the buffer and the one in hand any number may be there when it is looked.
    in_flight = 4 * ROWS * WIDTH * 4
    assert max(resident) - min(resident) <= 0.1 * resident[0] + in_flight

# SPDX-License-Identifier: Apache-2.0
"""Steps with a collective, fed by a thread that sleeps at random times on each process."""

import random
import time
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches import BatchLayout
from tfjax_batches.pipeline.host_batches import HostBatch
from tfjax_batches.placing.assemble import Assembler, DeviceBatch
from tfjax_batches.placing.prefetcher import Prefetcher

ROWS, STEPS = 8, 200


def host_batches(rows: np.ndarray) -> Iterator[HostBatch]:
    dice = random.Random(jax.process_index())
    for step in range(STEPS):
        if dice.random() < 0.3:
            time.sleep(dice.random() * 0.02)
        yield {("x",): (step * ROWS + rows).astype(np.int32)}


def main() -> None:
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
    rows = BatchLayout.from_sharding(sharding, ROWS).rows(jax.process_index())
    spec = jax.ShapeDtypeStruct((ROWS,), np.dtype(np.int32), sharding=sharding)
    place = Assembler({("x",): spec}, rows)

    @jax.jit
    def step(total: jax.Array, batch: DeviceBatch) -> jax.Array:
        return (total + batch[("x",)].sum()) % 1_000_003

    total, steps = jax.numpy.int32(0), 0
    with Prefetcher(host_batches(rows), place, depth=2) as batches:
        for batch in batches:
            # Forced CPU devices share few threads; several steps in flight could use them up.
            total = step(total, batch).block_until_ready()
            steps += 1
    assert steps == STEPS
    assert int(total) == sum(range(ROWS * STEPS)) % 1_000_003
    print(f"total: {int(total)}", flush=True)

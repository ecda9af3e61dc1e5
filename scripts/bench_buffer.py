# SPDX-License-Identifier: Apache-2.0
"""Measures the double buffer alone: how much it overlaps and what it costs. Needs no dataset.

    python scripts/bench_buffer.py [--quick] [--json FILE]

Overlap is the ratio of the times of two loops, with and without the thread. Cost is the median over
rounds; in each round, the buffer and the bare assembly take turns.
"""

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator

# JAX reads these when it is imported.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches.pipeline.host_batches import HostBatch
from tfjax_batches.placing.assemble import Assembler
from tfjax_batches.placing.prefetcher import Prefetcher

ROWS = 256
FEATURES = {("image",): (8, 8, 1), ("vector",): (16,), ("label",): (), ("_id",): ()}
READ_SECONDS = CONSUME_SECONDS = 0.05


def make_assembler() -> tuple[Assembler, HostBatch]:
    """Return an assembler of four features on eight devices, and a host batch for it."""
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
    batch: HostBatch = {p: np.zeros((ROWS, *s), np.float32) for p, s in FEATURES.items()}
    for values in batch.values():
        values.flags.writeable = False
    specs = {
        path: jax.ShapeDtypeStruct(values.shape, values.dtype, sharding=sharding)
        for path, values in batch.items()
    }
    return Assembler(specs, np.arange(ROWS)), batch


def overlap(steps: int, slow_every: int | None) -> dict[str, float]:
    """Return the seconds for all steps without and with the thread, and their ratio.

    Args:
        steps: Batches to read and consume.
        slow_every: Every so many reads, one takes four times as long. None: all take the same time.
    """

    def source() -> Iterator[int]:
        for step in range(steps):
            slow = slow_every is not None and step % slow_every == slow_every - 1
            time.sleep(READ_SECONDS * (4 if slow else 1))
            yield step

    def seconds(depth: int) -> float:
        start = time.perf_counter()
        with Prefetcher(source(), lambda number: number, depth=depth) as batches:
            for _ in batches:
                time.sleep(CONSUME_SECONDS)
        return time.perf_counter() - start

    serial, buffered = seconds(0), seconds(2)
    return {"serial": serial, "buffered": buffered, "ratio": buffered / serial}


def cost(rounds: int, steps: int) -> dict[str, float]:
    """Return the cost of a step in µs: of the assembly, and of the buffer with a full queue.

    The CPU figures count all threads, and other programs on the machine do not change them; `next`
    is how long the consumer waits.

    Args:
        rounds: Turns of each way; the result is their median.
        steps: Steps of each turn.
    """
    assemble, host_batch = make_assembler()
    source = itertools.repeat(host_batch)
    figures: dict[str, list[float]] = {
        "assembly, CPU": [],
        "beyond it, CPU": [],
        "beyond it, CPU, depth 0": [],
        "next, wall": [],
    }
    for _ in range(rounds):
        bare, _ = per_step(lambda: assemble(host_batch), steps)
        found = {}
        for depth in (2, 0):
            with Prefetcher(source, assemble, depth=depth) as batches:
                found[depth] = per_step(batches.__next__, steps)
        figures["assembly, CPU"].append(bare)
        figures["beyond it, CPU"].append(found[2][0] - bare)
        figures["beyond it, CPU, depth 0"].append(found[0][0] - bare)
        figures["next, wall"].append(found[2][1])
    return {name: statistics.median(values) for name, values in figures.items()}


def per_step(action: Callable[[], object], steps: int) -> tuple[float, float]:
    """Return CPU time of the process and median wall time per action, in µs.

    The consumer sleeps between two calls, long enough for the buffer to fill.
    """
    walls, result = [], action()
    cpu_start = time.process_time()
    for _ in range(steps):
        jax.block_until_ready(result)
        time.sleep(0.002)
        earlier = result  # keeps it alive, so that the time of the call does not include freeing it
        start = time.perf_counter()
        result = action()
        walls.append(time.perf_counter() - start)
        del earlier
    cpu = (time.process_time() - cpu_start) / steps
    return cpu * 1e6, statistics.median(walls) * 1e6


def main() -> None:
    """Run both sections and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short; shows that it runs")
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    options = parser.parse_args()
    steps, rounds, cost_steps = (4, 1, 50) if options.quick else (40, 9, 300)
    results = {
        "overlap": overlap(steps, slow_every=None),
        "overlap, jitter": overlap(steps, slow_every=8),
        "µs per step, 4 features on 8 devices": cost(rounds, cost_steps),
    }
    for section, figures in results.items():
        print(section)
        for name, value in figures.items():
            print(f"  {name:24} {value:10.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()

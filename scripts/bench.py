# SPDX-License-Identifier: Apache-2.0
"""Measures this loader beside the usual ways, as ratios within one run.

    python scripts/bench.py [--rounds 5] [--seconds 3] [--quick] [--json FILE]

The machine is shared: engines take turns, and medians over rounds are what counts.
"""

import argparse
import collections
import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

# Before JAX starts: a 2 × 2 mesh on any machine.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import jax
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb

BATCH_SIZE = 256
SHUFFLE_BUFFER = 1_000
WARM_UP_BATCHES = 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A prepared dataset and the features to read of it."""

    dataset: str
    split: str


def our_batches(workload: Workload, sharding: NamedSharding) -> Iterator[Any]:
    """Yield batches of this library, endless, in a global shuffle."""
    loader = tjb.build(
        workload.dataset, sharding, split=workload.split, global_batch_size=BATCH_SIZE, prepare=True
    )
    return iter(loader)


def tfds_batches(workload: Workload, sharding: NamedSharding, cached: bool) -> Iterator[Any]:
    """Yield batches as most write it: load, shuffle buffer, batch, and a two-deep deque.

    Args:
        workload: What to read.
        sharding: Of every feature.
        cached: Whether TFDS may keep the records of a small dataset in memory, as by default.
    """
    dataset = tfds.load(
        workload.dataset,
        split=workload.split,
        shuffle_files=True,
        read_config=tfds.ReadConfig(try_autocache=cached),
    )
    dataset = dataset.shuffle(SHUFFLE_BUFFER).repeat().batch(BATCH_SIZE, drop_remainder=True)
    host_batches = dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()

    def to_device() -> Any:
        return jax.tree.map(
            lambda x: jax.make_array_from_process_local_data(sharding, x), next(host_batches)
        )

    ready = collections.deque(to_device() for _ in range(2))
    while True:
        batch = ready.popleft()
        ready.append(to_device())
        yield batch


def examples_per_second(batches: Iterator[Any], seconds: float) -> float:
    """Return the rate of whole batches that are ready on all devices."""
    deadline = time.perf_counter() + seconds
    start, count = time.perf_counter(), 0
    while time.perf_counter() < deadline:
        jax.block_until_ready(next(batches))
        count += 1
    return count * BATCH_SIZE / (time.perf_counter() - start)


def bench_engines(workload: Workload, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return examples/s of each engine in each round; engines take turns."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    engines: dict[str, Callable[[], Any]] = {
        "tfjax_batches": lambda: our_batches(workload, sharding),
        "tfds": lambda: tfds_batches(workload, sharding, cached=True),
        "tfds, from files": lambda: tfds_batches(workload, sharding, cached=False),
    }
    rates: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, make in engines.items():
            batches = make()
            for _ in range(WARM_UP_BATCHES):
                next(batches)
            rates[name].append(examples_per_second(batches, seconds))
            batches.close()
    return rates


def print_table(workload: str, rates: dict[str, list[float]]) -> None:
    """Print median, spread and ratio to the first engine, a line an engine."""
    ours = statistics.median(rates["tfjax_batches"])
    print(f"\n{workload}: examples/s to 2 × 2 CPU devices, batch {BATCH_SIZE}, shuffled")
    print(f"{'engine':18} {'median':>10} {'lowest':>10} {'highest':>10}   ours is")
    for name, values in rates.items():
        median = statistics.median(values)
        print(
            f"{name:18} {median:10,.0f} {min(values):10,.0f} {max(values):10,.0f}"
            f"   {ours / median:.2f} ×"
        )


def main() -> None:
    """Run all workloads and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--json", metavar="FILE", help="also write the rates here")
    options = parser.parse_args()
    rounds, seconds = (1, 0.2) if options.quick else (options.rounds, options.seconds)
    logging.set_verbosity(logging.ERROR)
    results = {"digits": bench_engines(Workload(dataset="digits", split="train"), rounds, seconds)}
    for workload, rates in results.items():
        print_table(workload, rates)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()

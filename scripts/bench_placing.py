# SPDX-License-Identifier: Apache-2.0
"""Measures assembly, `check_replicas` and layouts, as ratios within one run.

    python scripts/bench_placing.py [--rounds 30]

It places a 38 MB image batch and 8 small features on a 4 × 2 mesh of forced CPU devices. The ways
take turns in each round; compare the medians over rounds.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tfjax_batches.placing.assemble import Assembler

HostBatch = dict[tuple[str, ...], np.ndarray]


def image_batch(misaligned: bool) -> HostBatch:
    """Return a 38 MB batch; JAX can use aligned memory in place, and copies misaligned memory."""
    shape = (256, 224, 224, 3)
    size = int(np.prod(shape))
    buffer = np.ones(size + 128, np.uint8)
    start = -buffer.ctypes.data % 64 + (1 if misaligned else 0)
    return {("image",): buffer[start : start + size].reshape(shape)}


def small_batch() -> HostBatch:
    return {(f"feature_{i}",): np.ones((256, 4), np.float32) for i in range(8)}


def ways_to_place(batch: HostBatch, sharding: NamedSharding) -> dict[str, Callable[[], Any]]:
    """Return the ways to make global arrays from a host batch, and a bare copy to compare with."""
    specs = {
        path: jax.ShapeDtypeStruct(values.shape, values.dtype, sharding=sharding)
        for path, values in batch.items()
    }
    assemble = Assembler(specs, np.arange(256))
    slices = {
        path: list(sharding.addressable_devices_indices_map(values.shape).values())
        for path, values in batch.items()
    }
    return {
        "tfjax_batches": lambda: assemble(batch),
        "bare NumPy copy": lambda: [
            values[index].copy() for path, values in batch.items() for index in slices[path]
        ],
        "device_put(x, sharding)": lambda: jax.device_put(batch, sharding),
        "make_array_from_process_local_data": lambda: {
            path: jax.make_array_from_process_local_data(sharding, values)
            for path, values in batch.items()
        },
        "make_array_from_callback": lambda: {
            path: jax.make_array_from_callback(values.shape, sharding, values.__getitem__)
            for path, values in batch.items()
        },
    }


def median_seconds(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median time in seconds until all arrays of each way are ready."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 3):
        for name, way in ways.items():
            start = time.perf_counter()
            jax.block_until_ready(way())
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds[3:]) for name, seconds in times.items()}


def print_ratios(title: str, seconds: dict[str, float]) -> None:
    ours = seconds["tfjax_batches"]
    print(f"\n{title}")
    for name, value in seconds.items():
        print(f"  {name:36} {value * 1e3:9.3f} ms   ours takes {ours / value:6.2f} × of it")


def bench_check_replicas(sharding: NamedSharding) -> None:
    tree = jax.device_put({"x": np.ones((100, 1 << 20), np.uint8)}, sharding)
    seconds = median_seconds({"check": lambda: tjb.check_replicas(tree)}, 5)["check"]
    print(f"\ncheck_replicas, 100 MB held by 2 devices each: {seconds:.3f} s")


def bench_layout() -> None:
    """Measure the rows of all of 4,096 processes with 4 devices each, and of one of them."""

    def rows_of(processes: range) -> None:
        layout = tjb.BatchLayout.simulate({"data": 512, "model": 32}, "data", 4096, 4096)
        for index in processes:
            layout.rows(index)

    seconds = median_seconds(
        {"all": lambda: rows_of(range(4096)), "one": lambda: rows_of(range(77, 78))}, 9
    )
    print(
        f"\nlayout of 4,096 processes × 4 devices: all rows {seconds['all'] * 1e3:.0f} ms, "
        f"those of one process {seconds['one'] * 1e3:.1f} ms"
    )


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="turns of each way")
    options = parser.parse_args()
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    for title, batch in (
        ("38 MB of images, memory as TensorFlow aligns it", image_batch(misaligned=False)),
        ("38 MB of images, memory that JAX must copy", image_batch(misaligned=True)),
        ("8 features of 4 KB", small_batch()),
    ):
        print_ratios(title, median_seconds(ways_to_place(batch, sharding), options.rounds))
    bench_check_replicas(sharding)
    bench_layout()


if __name__ == "__main__":
    main()

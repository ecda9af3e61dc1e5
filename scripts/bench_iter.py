# SPDX-License-Identifier: Apache-2.0
"""Measures the time from `iter(loader)` to the first batch: the first time and again.

    python scripts/bench_iter.py [--rounds 5] [--data_dir FOLDER]

One process, batches of 256 images of 28 × 28, stored as PNG. Each round builds a new loader. The
second `iter` is what every later evaluation and every restore of a run costs.
"""

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

# JAX and TensorFlow read these when they are imported.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import bench_workloads
import jax
import tensorflow as tf
from absl import logging

import tfjax_batches as tjb

WORKLOAD = bench_workloads.quick(bench_workloads.WORKLOADS["small_png"])


def scale_image(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return the example with its image as float32 from -1 to 1."""
    return {**example, "image": tf.cast(example["image"], tf.float32) / 127.5 - 1}


WAYS: dict[str, dict[str, Any]] = {
    "built-in ops": {"preprocess": "value_range(-1, 1)"},
    "MapExamples": {"transforms": [tjb.MapExamples(scale_image)]},
}


def seconds_to_first_batch(loader: tjb.BatchLoader) -> float:
    start = time.perf_counter()
    with iter(loader) as batches:
        jax.block_until_ready(next(batches))
        return time.perf_counter() - start


def main() -> None:
    """Print the medians of the first and of the second `iter`, in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="loaders to build for each way")
    default = os.path.join(tempfile.gettempdir(), "tfjax_batches_bench")
    parser.add_argument("--data_dir", default=default, help="folder for the dataset")
    options = parser.parse_args()
    logging.set_verbosity(logging.ERROR)
    folder = bench_workloads.prepare(WORKLOAD, options.data_dir, "tfrecord")
    seconds: dict[str, list[list[float]]] = {name: [] for name in WAYS}
    for _ in range(options.rounds):
        for name, fields in WAYS.items():
            loader = tjb.build(folder, global_batch_size=WORKLOAD.batch_size, **fields)
            seconds[name].append([seconds_to_first_batch(loader) for _ in range(2)])
    for name, rounds in seconds.items():
        first, second = (statistics.median(each) * 1e3 for each in zip(*rounds, strict=True))
        print(f"{name:13} first iter {first:6.0f} ms   second iter {second:6.0f} ms")


if __name__ == "__main__":
    main()

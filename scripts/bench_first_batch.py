# SPDX-License-Identifier: Apache-2.0
"""The time from `iter` to the first batch, for bench.py: the first time, later, and in evaluation.

One process and one device, batches of 256 images of 28 × 28, stored as PNG, scaled to float32.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import bench_workloads
import jax
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging

import tfjax_batches as tjb

EVALUATION_STEPS = 15
WORKLOAD = bench_workloads.WORKLOADS["small_png"]
WORKLOAD = dataclasses.replace(WORKLOAD, num_examples=EVALUATION_STEPS * WORKLOAD.batch_size)
FIGURES = ("first iter", "later iter", f"evaluation of {EVALUATION_STEPS} batches")

Open = Callable[[], Iterator[Any]]
"""Returns an iterator over one epoch of batches on the device; it has a close()."""


def scale_image(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return the example with its image as float32 from -1 to 1."""
    return {**example, "image": tf.cast(example["image"], tf.float32) / 127.5 - 1}


def built_in_ops(folder: str) -> Open:
    """Return what opens this library with an op of its own."""
    return _open_loader(folder, preprocess="value_range(-1, 1)")


def map_examples(folder: str) -> Open:
    """Return what opens this library with a user's function of an example."""
    return _open_loader(folder, transforms=[tjb.MapExamples(scale_image)])


def tfds_as_dataset(folder: str) -> Open:
    """Return what opens TFDS with the same function, in the order of the files."""
    dataset = tfds.builder_from_directory(folder).as_dataset(split="train")
    dataset = dataset.map(scale_image, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(WORKLOAD.batch_size).prefetch(tf.data.AUTOTUNE)

    def put() -> Iterator[Any]:
        for batch in dataset.as_numpy_iterator():
            yield jax.device_put(batch)

    return put


WAYS: dict[str, Callable[[str], Open]] = {
    "tfjax_batches, built-in ops": built_in_ops,
    "tfjax_batches, MapExamples": map_examples,
    "tfds as_dataset": tfds_as_dataset,
}


def print_first_batch(data_dir: str, rounds: int) -> None:
    """Print the medians of some rounds, in milliseconds; each round builds everything anew."""
    logging.set_verbosity(logging.ERROR)
    folder = bench_workloads.prepare(WORKLOAD, data_dir, "tfrecord")
    seconds: dict[str, list[list[float]]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, make in WAYS.items():
            open_batches = make(folder)
            counts = (1, 1, EVALUATION_STEPS)
            seconds[name].append([_seconds_for(open_batches, count) for count in counts])
    print(f"{'':28}" + "".join(f" {figure:>26}" for figure in FIGURES))
    for name, found in seconds.items():
        medians = [statistics.median(each) * 1e3 for each in zip(*found, strict=True)]
        print(f"{name:28}" + "".join(f" {median:23.1f} ms" for median in medians))


def _open_loader(folder: str, **fields: Any) -> Open:
    loader = tjb.build(folder, global_batch_size=WORKLOAD.batch_size, num_epochs=1, **fields)
    return lambda: iter(loader)


def _seconds_for(open_batches: Open, count: int) -> float:
    """Return the time from opening to so many batches on the device."""
    start = time.perf_counter()
    batches: Any = open_batches()
    for _ in range(count):
        jax.block_until_ready(next(batches))
    seconds = time.perf_counter() - start
    batches.close()
    return seconds

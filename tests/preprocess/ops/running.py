# SPDX-License-Identifier: Apache-2.0
"""Runs transforms on groups of examples, as a loader would, without one."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjax_batches.preprocess.registry import build_transforms


def make_seeds(count: int, first: int = 0) -> np.ndarray:
    """Return int32[count, 2] of well-mixed bits; row i depends on `first + i` alone."""
    rows = [np.random.default_rng(first + row).integers(-(2**31), 2**31, 2) for row in range(count)]
    return np.array(rows, np.int64).astype(np.int32)


def run(ops: str, batch: Any, seeds: np.ndarray | None = None) -> Any:
    """Return what an op string makes of a batch, traced as one graph, as NumPy."""
    tensors = as_tensors(batch)
    count = tf.nest.flatten(tensors)[0].shape[0]
    seeds = make_seeds(count) if seeds is None else seeds
    transforms = build_transforms(ops)

    def apply(batch: Any, seeds: tf.Tensor) -> Any:
        for transform in transforms:
            batch = transform.fn(batch, seeds) if transform.random else transform.fn(batch)
        return batch

    return tf.nest.map_structure(
        lambda x: x if isinstance(x, tf.RaggedTensor) else x.numpy(),
        tf.function(apply, autograph=False)(tensors, tf.constant(seeds)),
    )


def as_tensors(value: Any) -> Any:
    """Return a nested dict of tensors; ragged ones stay."""
    if isinstance(value, dict):
        return {name: as_tensors(part) for name, part in value.items()}
    return value if isinstance(value, tf.RaggedTensor) else tf.constant(value)


def ragged_images(images: list[np.ndarray]) -> tf.RaggedTensor:
    """Return [n, (h), (w), c] of images of several sizes."""
    return tf.ragged.stack([tf.RaggedTensor.from_tensor(image) for image in images])


def uniform_of(seeds: np.ndarray, count: int) -> np.ndarray:
    """Return float32[n, count]: the numbers of `random_numbers.uniform`, in NumPy."""
    state = np.ascontiguousarray(seeds).view(np.uint64)
    with np.errstate(over="ignore"):
        value = state + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    numbers: np.ndarray = (value >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
    return numbers

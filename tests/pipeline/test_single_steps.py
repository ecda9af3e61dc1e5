# SPDX-License-Identifier: Apache-2.0
"""A step made alone has the values, dtypes and shapes that it has in the dataset."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tfjax_batches.features.ragged import split_parts
from tfjax_batches.pipeline.host_batches import HostBatches
from tfjax_batches.pipeline.host_pipeline import HostPipeline


def assert_steps_are_those_of_the_dataset(pipeline: HostPipeline) -> None:
    assert pipeline.plan.num_steps is not None
    alone: HostBatches = pipeline.host_batches()
    expected = list(pipeline.dataset().map(split_parts).as_numpy_iterator())
    assert len(expected) == pipeline.plan.num_steps
    for step in reversed(range(pipeline.plan.num_steps)):
        found = alone._make_step(step)
        assert found.keys() == expected[step].keys()
        for value, other in zip(*map(tf.nest.flatten, (found, expected[step])), strict=True):
            np.testing.assert_array_equal(value, other)
            assert value.dtype == other.dtype
            assert not value.flags.writeable


def scaled(example: dict[str, Any], seed: tf.Tensor) -> dict[str, Any]:
    noise = tf.random.stateless_uniform([3], seed)
    # TensorFlow would rewrite the division of a function that is called directly.
    return {**example, "vector": example["vector"] / 255 * 3 + noise}


@pytest.mark.parametrize("group_size", [None, 8, 4, 3])
@pytest.mark.parametrize("remainder", ["carry", "pad"])
def test_make_equals_the_dataset_with_random_transforms(
    numbers_folder: str, group_size: int | None, remainder: str
) -> None:
    loader = tjb.build(
        numbers_folder,
        global_batch_size=8,
        num_epochs=2,
        remainder=remainder,
        with_ids=True,
        group_size=group_size,
        transforms=[tjb.MapExamples(scaled, random=True)],
    )
    assert_steps_are_those_of_the_dataset(loader.pipeline)


@pytest.mark.parametrize("group_size", [None, 2])
def test_make_equals_the_dataset_with_ragged_features(
    things_folder: str, group_size: int | None
) -> None:
    loader = tjb.build(
        things_folder,
        global_batch_size=4,
        num_epochs=1,
        remainder="pad",
        group_size=group_size,
        keep_on_host=("big", "text", "words", "objects", "paths", "photo"),
    )
    assert_steps_are_those_of_the_dataset(loader.pipeline)

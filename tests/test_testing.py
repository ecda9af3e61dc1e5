# SPDX-License-Identifier: Apache-2.0
"""What users test their transforms and filters with."""

from typing import Any

import jax
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import tfjax_batches as tjb
from tests.made_datasets import number_example

EXAMPLES = [
    {"number": np.int64(i), "text": f"no {i}", "nested": {"vector": np.ones(3, np.float32) * i}}
    for i in range(7)
]


def center(batch: dict[str, Any]) -> dict[str, Any]:
    """Let rows depend on each other."""
    return {**batch, "x": batch["x"] - tf.reduce_mean(batch["x"])}


def test_loader_of_delivers_the_examples_in_order_once() -> None:
    loader = tjb.testing.loader_of(EXAMPLES, keep_on_host=("text",))
    (batch,) = iter(loader)
    assert batch["number"].tolist() == list(range(7))
    assert isinstance(batch["number"], jax.Array)
    assert batch["nested"]["vector"][6].tolist() == [6, 6, 6]
    assert batch["_host"]["text"][3] == b"no 3"


def test_loader_of_takes_features_of_tfds_fields_transforms_and_a_filter() -> None:
    features = tfds.features.FeaturesDict(
        {
            "number": np.int64,
            "vector": tfds.features.Tensor(shape=(3,), dtype=np.float32),
            "label": tfds.features.ClassLabel(names=["ant", "bee", "cat"]),
            "nested": {"even": np.bool_, "image": tfds.features.Image(shape=(4, 5, 3))},
        }
    )
    loader = tjb.testing.loader_of(
        [number_example(i) for i in range(9)],
        features,
        preprocess="value_range(0, 1, key='nested/image')",
        filter=tjb.FilterExamples(lambda n: n % 2 == 0, features=("number",), name="even"),
        transforms=[tjb.MapExamples(lambda e: {**e, "number": e["number"] * 10})],
        global_batch_size=4,
        remainder="pad",
        with_ids=True,
    )
    assert (loader.num_examples, loader.num_steps) == (5, 2)
    first, second = iter(loader)
    assert first["number"].tolist() == [0, 20, 40, 60]
    assert second["_id"].tolist() == [8, -1, -1, -1]
    assert first["nested"]["image"].dtype == np.float32
    assert loader.label_names == {"label": ("ant", "bee", "cat")}


def test_loader_of_examples_that_do_not_fit_is_refused() -> None:
    with pytest.raises(tjb.FeatureError, match=r"'x' is float32 .*'a' later.* features"):
        tjb.testing.loader_of([{"x": np.float32(1)}, {"x": "a"}])
    with pytest.raises(tjb.FeatureError, match=r"'words' .* features"):
        tjb.testing.loader_of([{"words": ["a", "b"]}])
    with pytest.raises(tjb.ConfigError, match="got none"):
        tjb.testing.loader_of([])


@pytest.mark.parametrize("count", [1, 2, 7])
def test_check_transforms_passes_functions_of_an_example(count: int) -> None:
    def jitter(example: dict[str, Any], seed: tf.Tensor) -> dict[str, Any]:
        return {"x": example["x"] + tf.random.stateless_uniform([], seed)}

    def swap(batch: dict[str, Any], seeds: tf.Tensor) -> dict[str, Any]:
        real = tf.reduce_any(tf.reshape(seeds, [-1, 2, 2]) != 0, axis=2)
        pairs = tf.where(real, tf.reshape(batch["x"], [-1, 2]), 0.0)
        return {"x": tf.reshape(pairs[:, ::-1], tf.shape(batch["x"]))}

    tjb.testing.check_transforms(
        [{"x": np.float32(i)} for i in range(count)],
        [
            tjb.MapExamples(jitter, random=True),
            tjb.MapBatches(swap, random=True, row_multiple=2),
            tjb.MapBatches(lambda batch: {"x": batch["x"] * 2}),
        ],
    )


def test_check_transforms_finds_rows_that_depend_on_their_group() -> None:
    examples = [{"x": np.float32(i)} for i in range(6)]
    with pytest.raises(tjb.TransformError, match=r"'x' of example 0 .* MapBatches"):
        tjb.testing.check_transforms(examples, [tjb.MapBatches(center)])


def test_check_transforms_finds_values_that_differ_from_time_to_time() -> None:
    calls = iter(range(1000))

    def count(batch: dict[str, Any]) -> dict[str, Any]:
        def add(x: np.ndarray) -> np.ndarray:
            return x + np.float32(next(calls))

        added = tf.numpy_function(add, [batch["x"]], tf.float32, stateful=False)
        return {"x": tf.ensure_shape(added, batch["x"].shape)}

    with pytest.raises(tjb.TransformError, match=r"every time.*second run"):
        tjb.testing.check_transforms(
            [{"x": np.float32(i)} for i in range(4)], [tjb.MapBatches(count)]
        )


def test_check_transforms_compares_features_of_any_size_by_value() -> None:
    f = tfds.features
    features = f.FeaturesDict(
        {"x": np.float32, "words": f.Sequence(f.Text()), "paths": f.Sequence(f.Sequence(np.int64))}
    )
    examples = [
        {"x": i, "words": ["a"] * i, "paths": [list(range(j)) for j in range(i)]} for i in range(4)
    ]
    keep = ("words", "paths")
    tjb.testing.check_transforms(
        examples, [tjb.MapExamples(lambda example: example)], features, keep_on_host=keep
    )
    with pytest.raises(tjb.TransformError, match="'x' of example 0"):
        tjb.testing.check_transforms(
            examples, [tjb.MapBatches(center)], features, keep_on_host=keep
        )


def test_loader_of_refuses_values_that_the_first_dtype_would_change() -> None:
    with pytest.raises(tjb.FeatureError, match=r"'x' is int64 there, and 1\.7 later"):
        tjb.testing.loader_of([{"x": 1}, {"x": 1.7}])
    with pytest.raises(tjb.ConfigError, match="dicts of features"):
        tjb.testing.loader_of([1, 2])


def test_loader_of_with_a_filter_holds_what_it_selects_in_one_batch() -> None:
    odd = tjb.FilterExamples(lambda x: x % 2 == 1, features=("x",), name="odd")
    (batch,) = tjb.testing.loader_of([{"x": i} for i in range(5)], filter=odd).host_batches()
    assert batch["x"].tolist() == [1, 3]

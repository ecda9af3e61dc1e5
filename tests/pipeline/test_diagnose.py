# SPDX-License-Identifier: Apache-2.0
"""The example that caused a failure is found among good ones, and named."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tests.preprocess.test_chain import TRANSFORMS, build, mix_pairs


def refuse_13(example: dict[str, Any]) -> dict[str, Any]:
    tf.debugging.assert_none_equal(example["number"], tf.constant(13, tf.int64), message="unlucky")
    return example


def raise_at_13(batch: dict[str, Any]) -> dict[str, Any]:
    def check(number: np.ndarray) -> np.ndarray:
        if (number == 13).any():
            raise ValueError("13 is unlucky")
        return number

    number = tf.numpy_function(check, [batch["number"]], tf.int64, stateful=False)
    return {**batch, "number": tf.ensure_shape(number, batch["number"].shape)}


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (tjb.MapExamples(refuse_13), "unlucky"),
        (tjb.MapBatches(raise_at_13), "ValueError: 13 is unlucky"),
    ],
)
@pytest.mark.parametrize("prefetch_depth", [0, 2])
@pytest.mark.parametrize("mixes", [False, True])
def test_iter_transform_that_fails_names_itself_the_example_step_and_process(
    numbers_folder: str, transform: Any, reason: str, prefetch_depth: int, mixes: bool
) -> None:
    mix = [tjb.MapBatches(mix_pairs, random=True, row_multiple=2)] if mixes else []
    chain = [TRANSFORMS[0], transform, *mix]
    loader = build(numbers_folder, chain, shuffle="none", prefetch_depth=prefetch_depth)
    reader = loader.pipeline.readers[0]
    with iter(loader) as batches:
        next(batches)
        for _ in range(2):
            with pytest.raises(tjb.TransformError) as caught:
                next(batches)
            message = str(caught.value)
            assert f"2. {transform.fn.__name__} fails on example " in message
            assert f"example 13, {reader.describe(13)}" in message
            assert (reader.describe(12) in message) == mixes
            assert reason in message
            assert "filter=tjb.FilterExamples" in message
            assert message.endswith("(Step 1 on process 0.)")
            assert isinstance(caught.value.__cause__, tf.errors.OpError)
    with pytest.raises(tjb.TransformError, match="fails on example"):
        loader.preview(14)
    assert len(loader.preview(12)) == len(chain) + 1


def test_iter_transform_before_an_op_that_decodes_is_told_what_it_was_given(
    digits_data_dir: str,
) -> None:
    def add_mean(example: dict[str, Any]) -> dict[str, Any]:
        return {**example, "mean": tf.reduce_mean(tf.cast(example["image"], tf.float32))}

    loader = tjb.build(
        "digits",
        data_dir=digits_data_dir,
        global_batch_size=8,
        transforms=[tjb.MapExamples(add_mean), tjb.op("decode_random_crop(8)")],
    )
    text = r"1\. add_mean fails on .*the stored bytes that 2\. decode_random_crop\(8\) decodes"
    with pytest.raises(tjb.TransformError, match=text):
        next(loader.host_batches())


@pytest.mark.parametrize("mixes", [False, True])
def test_explain_does_not_blame_an_example_that_the_filter_left_out(
    numbers_folder: str, mixes: bool
) -> None:
    def refuse_0(example: dict[str, Any]) -> dict[str, Any]:
        tf.debugging.assert_positive(example["number"])
        return example

    mix = [tjb.MapBatches(mix_pairs, random=True, row_multiple=2)] if mixes else []
    loader = tjb.build(
        numbers_folder,
        global_batch_size=8,
        features=("number", "vector"),
        remainder="pad",
        num_epochs=1,
        transforms=[tjb.MapExamples(refuse_0), *mix],
        filter=tjb.FilterExamples(lambda number: number > 1, features=("number",), name="above-1"),
    )
    assert loader.num_steps == 3
    assert (loader.plan_step(2).examples < 0).sum() == 3
    assert loader.pipeline.explain(2) is None

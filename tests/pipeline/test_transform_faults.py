# SPDX-License-Identifier: Apache-2.0
"""A transform that fails on an example is told with the example."""

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
    with iter(loader) as batches:
        next(batches)
        for _ in range(2):
            with pytest.raises(tjb.TransformError) as caught:
                next(batches)
            message = str(caught.value)
            assert f"; 2. {transform.fn.__name__} fails on record " in message
            assert loader._reader.describe(13) in message
            assert (loader._reader.describe(12) in message) == mixes
            assert reason in message
            assert "Mend the transform" in message
            assert message.endswith("(Step 1 on process 0.)")
            assert isinstance(caught.value.__cause__, tf.errors.OpError)
    with pytest.raises(tjb.TransformError, match="fails on record"):
        loader.preview(14)
    assert len(loader.preview(12)) == len(chain) + 1

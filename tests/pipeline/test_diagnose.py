# SPDX-License-Identifier: Apache-2.0
"""The example that caused a failure is found among good ones, and named."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tests.preprocess.test_chain import TRANSFORMS, build, mix_pairs
from tests.reading.feature_kinds import VARIABLE
from tests.reading.test_decode import features_of, serialize
from tfjax_batches.pipeline.diagnose import find_bad_record
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.decode import Decoder


class Records:
    """Reads from a list of records."""

    def __init__(self, records: list[bytes]) -> None:
        self._records = records

    def open(self) -> None:
        pass

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        data = np.empty(len(examples), object)
        data[:] = [self._records[example] for example in examples]
        return data

    def mean_record_bytes(self) -> float:
        return 1.0

    def describe(self, example: int) -> str:
        return f"record {example}"

    def index_location(self) -> str:
        return "memory"


@pytest.mark.parametrize("kind", VARIABLE)
def test_find_bad_record_passes_over_good_records_of_every_kind(kind: str) -> None:
    features = features_of(kind)
    reader = Records([*serialize(features, 4), b"no example"])
    decoder = Decoder(features, None, "made")
    assert find_bad_record(np.arange(4), reader, decoder) is None
    assert "record 4, is not: " in str(find_bad_record(np.arange(5), reader, decoder))


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
    reader = loader.pipeline.reader
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

# SPDX-License-Identifier: Apache-2.0
"""Features that TFDS writes and does not read: their values, or an error that names them."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import FeatureError
from tfjax_batches.reading.decode import Decoder

f = tfds.features
NUMBERS = np.arange(24, dtype=np.int32)
FIXED_LENGTHS: dict[str, tuple[Any, list[Any], tuple[int | None, ...]]] = {
    # The feature, two examples, and the shape. TFDS writes these and does not read them.
    "all": (
        f.Sequence(f.Sequence(np.int32, length=3), length=4),
        [NUMBERS[:12].reshape(4, 3), NUMBERS[12:].reshape(4, 3)],
        (4, 3),
    ),
    "inner": (
        f.Sequence(f.Sequence(f.Tensor(shape=(2,), dtype=np.int32), length=3)),
        [NUMBERS[:12].reshape(2, 3, 2), NUMBERS[:0].reshape(0, 3, 2)],
        (None, 3, 2),
    ),
    "videos": (
        f.Sequence(f.Video(shape=(2, 3, 4, 1))),
        [NUMBERS.reshape(1, 2, 3, 4, 1).astype(np.uint8), np.zeros((0, 2, 3, 4, 1), np.uint8)],
        (None, 2, 3, 4, 1),
    ),
    "in_dataset": (
        f.Dataset(f.Sequence(np.int32, length=2)),
        [NUMBERS[:6].reshape(3, 2), NUMBERS[:2].reshape(1, 2)],
        (None, 2),
    ),
    "outer": (
        f.Sequence(f.Sequence(np.int32), length=3),
        [[[1, 2], [], [3]], [[], [], [4]]],
        (None, None),
    ),
    "outermost": (
        f.Sequence(f.Sequence(f.Sequence(np.int32, length=1)), length=2),
        [[[[1], [2]], []], [[], [[3]]]],
        (None, None, None),
    ),
}


@pytest.mark.parametrize("kind", FIXED_LENGTHS)
def test_decode_nested_sequences_of_fixed_lengths_hold_what_was_written(kind: str) -> None:
    feature, examples, shape = FIXED_LENGTHS[kind]
    features = tfds.features.FeaturesDict({"x": feature})
    records = [features.serialize_example({"x": example}) for example in examples]
    decoder = Decoder(features, None, "made")
    assert decoder.specs[("x",)].shape == shape
    found = tf.function(decoder.decode)(tf.constant(records))[("x",)]
    assert found.shape.as_list() == [2, *shape]
    for value, example in zip(found, examples, strict=True):
        assert (value.to_list() if isinstance(example, list) else value.numpy().tolist()) == (
            example if isinstance(example, list) else example.tolist()
        )


def test_decode_several_unknown_sizes_are_refused_and_left_out_as_advised() -> None:
    features = tfds.features.FeaturesDict(
        {
            "flat": f.Sequence(f.Tensor(shape=(None,), dtype=np.int32)),
            "nested": f.Sequence(f.Sequence(f.Tensor(shape=(None,), dtype=np.int32))),
            "label": np.int64,
        }
    )
    with pytest.raises(FeatureError) as caught:
        Decoder(features, None, "made")
    for text in ("one unknown size", "'flat', 'nested' of made", "features=('label',)"):
        assert text in str(caught.value)
    assert list(Decoder(features, ("label",), "made").specs) == [("label",)]


def test_decode_optional_encoded_numbers_that_are_there() -> None:
    feature = f.Tensor(shape=(2,), dtype=np.int32, encoding="zlib", optional=True)
    features = tfds.features.FeaturesDict({"x": feature})
    record = features.serialize_example({"x": np.array([1, 2], np.int32)})
    found = Decoder(features, None, "made").decode(tf.constant([record]))
    assert found[("x",)].numpy().tolist() == [[1, 2]]

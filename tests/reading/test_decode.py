# SPDX-License-Identifier: Apache-2.0
"""Features equal those of TFDS; what has no fixed shape is refused by name."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import FeatureError
from tfjax_batches.reading.decode import Decoder

FIXED = tfds.features.FeaturesDict(
    {
        "scalar": np.int32,
        "wide": np.uint64,
        "double": np.float64,
        "flag": np.bool_,
        "tensor": tfds.features.Tensor(shape=(2, 3), dtype=np.int8),
        "zipped": tfds.features.Tensor(shape=(2,), dtype=np.int64, encoding="zlib"),
        "png": tfds.features.Image(shape=(3, 4, 1)),
        "jpeg": tfds.features.Image(shape=(16, 16, 3), encoding_format="jpeg"),
        "box": tfds.features.BBoxFeature(),
        "label": tfds.features.ClassLabel(num_classes=5),
        "three": tfds.features.Sequence(np.int64, length=3),
        "deep": {"deeper": {"value": np.float32}},
    }
)
VARIABLE = {
    "text": tfds.features.Text(),
    "image": tfds.features.Image(),
    "many": tfds.features.Sequence(np.int64),
    "ragged": tfds.features.Sequence(tfds.features.Sequence(np.int64)),
    "objects": tfds.features.Sequence({"box": tfds.features.BBoxFeature()}),
}


def fixed_example(number: int) -> dict:
    random = np.random.default_rng(number)
    return {
        "scalar": np.int32(-number),
        "wide": np.uint64(2**40 + number),
        "double": number / 4,
        "flag": number % 2 == 1,
        "tensor": random.integers(-128, 127, (2, 3), np.int8),
        "zipped": random.integers(0, 2**40, 2),
        "png": random.integers(0, 255, (3, 4, 1), np.uint8),
        "jpeg": random.integers(0, 255, (16, 16, 3), np.uint8),
        "box": tfds.features.BBox(0.1, 0.2, 0.5, 0.25 + number / 10),
        "label": number % 5,
        "three": [number, 2, 3],
        "deep": {"deeper": {"value": np.float32(number)}},
    }


def test_decode_every_fixed_feature_equals_tfds() -> None:
    records = [FIXED.serialize_example(fixed_example(number)) for number in range(5)]
    decoder = Decoder(FIXED, None, "made")
    found = tf.function(decoder.decode)(tf.constant(records))
    for number, record in enumerate(records):
        expected = FIXED.deserialize_example(record)
        expected["deep/deeper/value"] = expected.pop("deep")["deeper"]["value"]
        assert sorted(found) == sorted(expected) == list(decoder.specs)
        for path, value in expected.items():
            np.testing.assert_array_equal(found[path][number], value, err_msg=path)
            assert found[path].dtype == value.dtype, path
            assert decoder.specs[path].shape == value.shape, path
            assert tf.as_dtype(decoder.specs[path].dtype) == value.dtype, path


def test_decode_parses_only_what_is_asked_for() -> None:
    """A record that lacks the other features still parses."""
    short = tfds.features.FeaturesDict({"label": FIXED["label"], "deep": FIXED["deep"]})
    example = {key: fixed_example(3)[key] for key in ("label", "deep")}
    decoder = Decoder(FIXED, ("label", "deep"), "made")
    found = decoder.decode(tf.constant([short.serialize_example(example)]))
    assert {path: value.numpy().tolist() for path, value in found.items()} == {
        "deep/deeper/value": [3.0],
        "label": [3],
    }


def test_decode_variable_features_are_refused_all_at_once() -> None:
    features = tfds.features.FeaturesDict(
        {**VARIABLE, "label": tfds.features.ClassLabel(num_classes=3)}
    )
    with pytest.raises(FeatureError) as caught:
        Decoder(features, None, "made/1.0.0")
    message = str(caught.value)
    assert "has a fixed shape and is no string; of made/1.0.0" in message
    assert "  text: a string" in message
    assert "  image: shape (None, None, 3)" in message
    for path in ("many", "ragged", "objects"):
        assert f"  {path}: " in message
    assert "Leave them out: features=('label',)" in message
    assert list(Decoder(features, ("label",), "made").specs) == ["label"]


def test_decode_unknown_feature_suggests_the_nearest() -> None:
    with pytest.raises(FeatureError, match=r"made has no 'lable'. Did you mean 'label'\?"):
        Decoder(FIXED, ("lable",), "made")

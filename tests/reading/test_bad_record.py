# SPDX-License-Identifier: Apache-2.0
"""A record that cannot be decoded is named, with the feature, what it must be and what it is."""

import io
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tests.reading.feature_kinds import VARIABLE
from tests.reading.test_decode import features_of, serialize
from tests.reading.writing import Records
from tfjax_batches.reading.bad_record import find_bad_record
from tfjax_batches.reading.decode import Decoder


def png(height: int, width: int) -> io.BytesIO:
    return io.BytesIO(tf.io.encode_png(np.zeros((height, width, 3), np.uint8)).numpy())


@pytest.mark.parametrize(
    ("shape", "bad", "texts"),
    [
        ((4, 4, 3), png(5, 4), ["uint8 of shape (4, 4, 3): ", "shape (5, 4, 3) is not"]),
        ((None, 4, 3), png(5, 6), ["uint8 of shape (None, 4, 3): ", "shape (5, 6, 3) is not"]),
        ((4, 4, 3), io.BytesIO(b"text"), ["uint8 of shape (4, 4, 3): Unknown image file format."]),
    ],
)
@pytest.mark.parametrize("is_sequence", [False, True])
def test_find_bad_record_names_the_feature_what_it_must_be_and_what_it_is(
    shape: Any, bad: io.BytesIO, texts: list[str], is_sequence: bool
) -> None:
    image: Any = tfds.features.Image(shape=shape)
    values: list[Any] = [png(4, 4), bad]
    if is_sequence:
        image, values = tfds.features.Sequence(image, length=1), [[value] for value in values]
        texts = [texts[0].replace("shape (", "shape (1, "), *texts[1:]]
    features = tfds.features.FeaturesDict({"number": np.int64, "image": image})
    records = []
    for number, value in enumerate(values):
        for file in value if is_sequence else [value]:
            file.seek(0)
        example = features.encode_example({"number": number, "image": value})
        records.append(features.serialize_example(example))
    error = find_bad_record(np.arange(2), Records(records), Decoder(features, None, "made"))
    assert "example 1, record 1, is not: its 'image' must be " in str(error)
    for text in texts:
        assert text in str(error)
    assert "features=(…)" in str(error)
    assert "function_node" not in str(error)


def test_find_bad_record_of_bytes_that_are_no_example_blames_no_feature() -> None:
    features = tfds.features.FeaturesDict({"number": np.int64, "other": np.int64})
    decoder = Decoder(features, None, "made")
    error = find_bad_record(np.arange(1), Records([b"no example"]), decoder)
    assert "example 0, record 0, is not: " in str(error)
    assert "must be" not in str(error)


@pytest.mark.parametrize("kind", VARIABLE)
def test_find_bad_record_passes_over_good_records_of_every_kind(kind: str) -> None:
    features = features_of(kind)
    reader = Records([*serialize(features, 4), b"no example"])
    decoder = Decoder(features, None, "made")
    assert find_bad_record(np.arange(4), reader, decoder) is None
    assert "record 4, is not: " in str(find_bad_record(np.arange(5), reader, decoder))

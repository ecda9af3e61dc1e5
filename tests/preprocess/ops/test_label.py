# SPDX-License-Identifier: Apache-2.0
"""Labels become vectors; mixed rows mix their labels in the same measure."""

import numpy as np
import pytest
import tensorflow as tf

from tests.preprocess.ops.running import make_seeds, run
from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.preprocess.random_numbers import beta

LABELS = np.arange(6) % 3
IMAGES = np.random.default_rng(0).normal(size=(6, 4, 5, 3)).astype(np.float32)


def test_one_hot_is_a_row_of_the_identity() -> None:
    result = run("one_hot(3)", {"label": LABELS})["label"]
    np.testing.assert_array_equal(result, np.eye(3, dtype=np.float32)[LABELS])
    assert result.dtype == np.float32
    nested = run("one_hot(4, key='a/b')", {"a": {"b": np.array([[0, 3], [-1, 1]], np.int32)}})
    assert nested["a"]["b"].tolist() == [
        [[1, 0, 0, 0], [0, 0, 0, 1]],
        [[0, 0, 0, 0], [0, 1, 0, 0]],
    ]


def test_one_hot_a_label_beyond_the_classes_is_an_error_when_read() -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"below num_classes=2; some of .'label"
    ):
        run("one_hot(2)", {"label": LABELS})


def test_mixup_mixes_pairs_of_rows_and_labels_alike() -> None:
    seeds = make_seeds(6)
    batch = {"image": IMAGES, "label": LABELS, "id": np.arange(6)}
    result = run("one_hot(3)|mixup(0.7)", batch, seeds)
    share = beta(seeds, 0.7).numpy().astype(np.float64)
    others = np.array([1, 0, 3, 2, 5, 4])
    for name, value in (("image", IMAGES), ("label", np.eye(3)[LABELS])):
        weight = share.reshape(-1, *[1] * (value.ndim - 1))
        expected = weight * value + (1 - weight) * value[others]
        np.testing.assert_allclose(result[name], expected, atol=1e-6)
    np.testing.assert_allclose(result["label"].sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(result["id"], np.arange(6))


def test_mixup_groups_that_begin_at_a_pair_change_nothing() -> None:
    seeds = make_seeds(6)
    batch = {"image": IMAGES, "label": np.eye(3, dtype=np.float32)[LABELS]}
    whole = run("mixup(1.0)", batch, seeds)["image"]
    part = run("mixup(1.0)", {k: v[2:6] for k, v in batch.items()}, seeds[2:6])["image"]
    np.testing.assert_array_equal(part, whole[2:6])


def test_mixup_a_row_beside_padding_stays_as_it_is() -> None:
    seeds = make_seeds(6)
    seeds[[3, 5]] = 0
    batch = {"image": IMAGES, "label": np.eye(3, dtype=np.float32)[LABELS]}
    result = run("mixup(1.0)", batch, seeds)
    for name, value in batch.items():
        np.testing.assert_array_equal(result[name][[2, 4]], value[[2, 4]])
        assert not np.allclose(result[name][:2], value[:2])


@pytest.mark.parametrize(
    ("image", "label", "text"),
    [
        (IMAGES.astype(np.uint8), LABELS, "floats.*'image' is uint8.*Put value_range"),
        (IMAGES, LABELS, "floats.*'label' is int64.*Put one_hot in front"),
    ],
)
def test_mixup_what_cannot_be_mixed_is_named(
    image: np.ndarray, label: np.ndarray, text: str
) -> None:
    with pytest.raises(FeatureError, match=text):
        run("mixup(0.2)", {"image": image, "label": label})


def test_mixup_of_one_feature_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"two features.*'label' for both.*key='image'"):
        run("mixup(1.0, key='label')", {"label": np.ones((2, 3), np.float32)})

# SPDX-License-Identifier: Apache-2.0
"""Values are mapped as NumPy maps them, and never wrap around."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from tests.preprocess.ops.running import ragged_images, run
from tfjax_batches.errors import FeatureError

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), np.uint8)
RAGGED = ragged_images([IMAGES[0], IMAGES[1, :3, :2]])
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize(
    ("dtype", "greatest"), [(np.uint8, 255), (np.int64, 255), (np.uint16, 65535)]
)
def test_value_range_maps_ends_to_ends(dtype: npt.DTypeLike, greatest: int) -> None:
    image: np.ndarray = np.array([[0, greatest]], dtype)
    result = run("value_range(-1, 1)", {"image": image})["image"]
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, [[-1, 1]], atol=1e-6)


def test_value_range_is_linear_and_takes_ragged() -> None:
    result = run("value_range(2, 5)", {"image": IMAGES})["image"]
    np.testing.assert_allclose(result, IMAGES / 255 * 3 + 2, rtol=1e-6)
    ragged = run("value_range(2, 5)", {"image": RAGGED})["image"]
    np.testing.assert_allclose(ragged[1].to_tensor(), IMAGES[1, :3, :2] / 255 * 3 + 2, rtol=1e-6)


@pytest.mark.parametrize("scale", [None, 1, 255])
@pytest.mark.parametrize("images", [IMAGES, RAGGED], ids=["dense", "ragged"])
def test_normalize_scale_is_the_unit_of_mean_and_std(images: object, scale: int | None) -> None:
    unit = 255 / (scale or 1)
    mean, std = (tuple(unit * number for number in numbers) for numbers in (MEAN, STD))
    result = run(f"normalize({mean}, {std}, scale={scale})", {"image": images})["image"]
    assert result.dtype == np.float32
    first = result[0].to_tensor() if isinstance(result, tf.RaggedTensor) else result[0]
    np.testing.assert_allclose(first, (IMAGES[0] / 255 - MEAN) / STD, rtol=1e-5, atol=1e-5)


def test_normalize_floats_are_in_their_own_unit() -> None:
    images = IMAGES.astype(np.float32)
    result = run("normalize(0.5, (1.0, 0.5, 0.25))", {"image": images})["image"]
    np.testing.assert_allclose(result, (images - 0.5) / [1.0, 0.5, 0.25], rtol=1e-6)


def test_normalize_integers_with_mean_and_std_of_0_to_1_need_a_scale() -> None:
    with pytest.raises(FeatureError, match=r"uint8.*mean=0.*std=1.*scale=255.*scale=1 "):
        run("normalize(0, 1)", {"image": IMAGES})
    same = run("normalize(0, 1, scale=1)", {"image": IMAGES})["image"]
    np.testing.assert_array_equal(same, IMAGES)
    scaled = run("normalize(0, 1, scale=255)", {"image": IMAGES})["image"]
    np.testing.assert_allclose(scaled, IMAGES / 255, rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (np.array([-3.7, 1.5, 254.6, 300], np.float32), "uint8", [0, 2, 255, 255]),
        (np.array([1e10, -1e10, 2**31], np.float32), "int32", [2**31 - 1, -(2**31), 2**31 - 1]),
        (np.array([1e10, -1, 2.0**31], np.float32), "uint32", [2**32 - 1, 0, 2**31]),
        (np.array([1e19, -1e19, 7.5]), "int64", [2**63 - 1, -(2**63), 8]),
        (np.array([np.inf, -np.inf, 6e4], np.float16), "int32", [2**31 - 1, -(2**31), 60_000]),
        (np.array([0, 255], np.uint8), "float32", [0.0, 255.0]),
        (np.array([-5, 2**31 - 1]), "int32", [-5, 2**31 - 1]),
        (np.array([0, 7]), "bool", [False, True]),
        (np.array([True, False]), "int32", [1, 0]),
        (np.array([200], np.uint8), "int64", [200]),
    ],
)
def test_cast_keeps_what_the_dtype_can_hold(
    value: np.ndarray, dtype: str, expected: list[Any]
) -> None:
    result = run(f"cast({dtype!r})", {"image": value})["image"]
    assert result.dtype == dtype
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.array([1, 2**31]), "int32"),
        (np.array([-1], np.int32), "uint8"),
        (np.array([-1], np.int32), "uint32"),
        (np.array([2**31], np.uint32), "int32"),
        (np.array([200], np.uint8), "int8"),
    ],
)
def test_cast_integers_that_do_not_fit_are_an_error_when_read(
    value: np.ndarray, dtype: str
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{dtype} cannot hold .*'image"):
        run(f"cast({dtype!r})", {"image": value})


@pytest.mark.parametrize(
    ("ops", "image", "text"),
    [
        ("value_range(0, 1)", IMAGES / 255, r"must be uint8.*float64\[4, 5.*Write value_range"),
        ("value_range(0, 1)", [b"x"], r"numbers.*string\[1\]. Put an op that decodes"),
        ("normalize(0, (1, 2))", IMAGES, "mean has 1 and std 2. Give as many as channels"),
        ("cast('int32')", [b"x"], r"numbers; 'image' is string\[1\]"),
    ],
)
def test_value_ops_what_they_cannot_take_is_named(ops: str, image: object, text: str) -> None:
    with pytest.raises(FeatureError, match=text):
        run(ops, {"image": image})

# SPDX-License-Identifier: Apache-2.0
"""Images are cut, mirrored and blanked as NumPy does it, each by its own seed."""

import numpy as np
import pytest
import tensorflow as tf

from tests.preprocess.ops.running import make_seeds, ragged_images, run, uniform_of
from tfjax_batches.errors import FeatureError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (8, 10, 12, 3), np.uint8)
SEEDS = make_seeds(8)
SIZES = [(10, 12), (7, 9), (15, 8), (6, 6)]
SEVERAL = [RNG.integers(0, 256, (*size, 3), np.uint8) for size in SIZES]
RAGGED = ragged_images(SEVERAL)


@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic", "area"])
def test_resize_rounds_to_the_dtype(method: str) -> None:
    result = run(f"resize((5, 6), method={method!r})", {"image": IMAGES})["image"]
    exact = tf.image.resize(IMAGES, (5, 6), method).numpy()
    np.testing.assert_array_equal(result, np.clip(np.round(exact), 0, 255).astype(np.uint8))
    floats = IMAGES.astype(np.float32)
    np.testing.assert_array_equal(
        run(f"resize((5, 6), method={method!r})", {"image": floats})["image"],
        tf.image.resize(floats, (5, 6), method),
    )


def test_resize_images_of_several_sizes_become_one() -> None:
    result = run("resize(5, antialias=True)", {"image": RAGGED})["image"]
    for image, original in zip(result, SEVERAL, strict=True):
        exact = np.round(tf.image.resize(original, (5, 5), antialias=True))
        np.testing.assert_array_equal(image, np.clip(exact, 0, 255).astype(np.uint8))


def cut_middle(image: np.ndarray, height: int, width: int) -> np.ndarray:
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    return image[top : top + height, left : left + width]


@pytest.mark.parametrize(("images", "several"), [(IMAGES, IMAGES), (RAGGED, SEVERAL)])
def test_central_crop_is_the_middle(images: object, several: np.ndarray | list[np.ndarray]) -> None:
    result = run("central_crop((6, 5))", {"image": images})["image"]
    for image, original in zip(result, several, strict=True):
        np.testing.assert_array_equal(image, cut_middle(original, 6, 5))


@pytest.mark.parametrize(("images", "several"), [(IMAGES, IMAGES), (RAGGED, SEVERAL)])
def test_pad_crop_puts_zeros_around(images: object, several: np.ndarray | list[np.ndarray]) -> None:
    result = run("pad_crop((16, 6))", {"image": images})["image"]
    for image, original in zip(result, several, strict=True):
        height, width = original.shape[:2]
        cut = original[:, (width - 6) // 2 :][:, :6]
        above = (16 - height) // 2
        around = ((above, 16 - height - above), (0, 0), (0, 0))
        np.testing.assert_array_equal(image, np.pad(cut, around))


@pytest.mark.parametrize(("images", "several"), [(IMAGES, IMAGES), (RAGGED, SEVERAL)])
def test_random_crop_is_a_window_of_the_padded_image(
    images: object, several: np.ndarray | list[np.ndarray]
) -> None:
    seeds = SEEDS[: len(several)]
    result = run("random_crop((6, 7), padding=2)", {"image": images}, seeds)["image"]
    numbers = uniform_of(seeds, 2)
    for image, original, (down, along) in zip(result, several, numbers, strict=True):
        padded = np.pad(original, ((2, 2), (2, 2), (0, 0)))
        top = int(down * np.float32(padded.shape[0] - 6 + 1))
        left = int(along * np.float32(padded.shape[1] - 7 + 1))
        np.testing.assert_array_equal(image, padded[top : top + 6, left : left + 7])


def test_random_crop_reaches_every_place() -> None:
    places = np.arange(36, dtype=np.int32).reshape(1, 6, 6, 1).repeat(500, 0)
    corners = run("random_crop(4)", {"image": places})["image"][:, 0, 0, 0]
    assert sorted(set(corners)) == [0, 1, 2, 6, 7, 8, 12, 13, 14]


def test_flip_lr_mirrors_about_half_and_only_by_seed() -> None:
    images = RNG.integers(0, 256, (400, 3, 5, 2), np.uint8)
    seeds = make_seeds(400)
    result = run("flip_lr", {"image": images}, seeds)["image"]
    is_flipped = uniform_of(seeds, 1)[:, 0] < 0.5
    np.testing.assert_array_equal(
        result, np.where(is_flipped[:, None, None, None], images[:, :, ::-1], images)
    )
    assert 150 < is_flipped.sum() < 250
    part = run("flip_lr", {"image": images[7:20]}, seeds[7:20])["image"]
    np.testing.assert_array_equal(part, result[7:20])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_cutout_blanks_a_square_that_may_stick_out(dtype: type) -> None:
    images = (IMAGES.astype(dtype) // 2) + dtype(1)
    result = run("cutout(5, fill=3)", {"image": images}, SEEDS)["image"]
    for image, original, (down, along) in zip(result, images, uniform_of(SEEDS, 2), strict=True):
        top, left = int(down * np.float32(10)) - 2, int(along * np.float32(12)) - 2
        expected = original.copy()
        expected[max(top, 0) : top + 5, max(left, 0) : left + 5] = 3
        np.testing.assert_array_equal(image, expected)
    assert result.dtype == dtype


def test_image_ops_nested_keys_leave_the_rest_alone() -> None:
    batch = {"a": {"image": IMAGES, "label": np.arange(8)}, "image": IMAGES}
    result = run("central_crop(4, key='a/image')", batch)
    assert result["a"]["image"].shape == (8, 4, 4, 3)
    np.testing.assert_array_equal(result["image"], IMAGES)
    np.testing.assert_array_equal(result["a"]["label"], np.arange(8))


@pytest.mark.parametrize(
    ("ops", "image", "text"),
    [
        ("flip_lr", RAGGED, r"one size; 'image' is ragged uint8\[4.*Put resize"),
        (
            "flip_lr",
            [b"x"],
            r"must be \[n, h, w, c\]; 'image' is string\[1\]. Put decode\('image'\) in front",
        ),
        ("resize(4)", np.zeros((2, 3)), r"\[n, h, w, c\].*float64\[2, 3\].*Name a feature"),
        ("flip_lr(key='imag')", IMAGES, "'imag' is not. Did you mean 'image'.*key"),
        ("central_crop(11)", IMAGES, r"11 × 11.*'image' is uint8\[8, 10.*Put resize"),
        ("random_crop(15, 2)", IMAGES, r"15 × 15.*'image' is uint8\[8, 10.*Put resize"),
        ("cutout(2, fill=0.5)", IMAGES, r"dtype can hold.*fill is 0.5.*integer from 0 to 255"),
        (
            "cutout(2, fill=256)",
            IMAGES,
            r"'image' is uint8.*fill is 256. Write an integer from 0 to 255",
        ),
        (
            "cutout(2, fill=1e300)",
            IMAGES.astype(np.float32),
            r"fill is 1e\+300.* from -3.4",
        ),
    ],
)
def test_image_ops_what_they_cannot_take_is_named(ops: str, image: object, text: str) -> None:
    with pytest.raises(FeatureError, match=text):
        run(ops, {"image": image})


@pytest.mark.parametrize("op", ["central_crop", "random_crop"])
def test_crops_an_image_that_is_too_small_is_an_error_when_read(op: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"7 × 7.*is smaller"):
        run(f"{op}(7)", {"image": RAGGED})

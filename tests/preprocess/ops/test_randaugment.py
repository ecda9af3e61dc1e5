# SPDX-License-Identifier: Apache-2.0
"""Each distortion does what Pillow does; RandAugment draws them by the seed of each image."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from tests.preprocess.ops.running import make_seeds, ragged_images, run, uniform_of
from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.preprocess.ops.randaugment import make_distortions
from tfjax_batches.preprocess.registry import build_transforms
from tfjax_batches.testing import check_transforms

RNG = np.random.default_rng(0)
NAMES = tuple(make_distortions(0.5, 0))
FILL = (9, 9, 9)


def photo(height: int, width: int, low: int = 20, high: int = 200) -> np.ndarray:
    """Return a smooth image, uint8[height, width, 3]."""
    coarse = Image.fromarray(RNG.integers(low, high, (5, 6, 3), np.uint8))
    return np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))


def distort(name: str, image: np.ndarray, level: float, sign: float) -> np.ndarray:
    distortion = tf.function(make_distortions(level, FILL[0])[name], autograph=False)
    result: np.ndarray = distortion(tf.constant(image), tf.constant(sign)).numpy()
    return result


def by_pillow(name: str, pixels: np.ndarray, level: float, sign: float) -> Image.Image:
    image = Image.fromarray(pixels)
    width, height = image.size
    factor = 1 + 0.9 * level * sign

    def affine(*matrix: float) -> Image.Image:
        nearest = Image.Resampling.NEAREST
        return image.transform(image.size, Image.Transform.AFFINE, matrix, nearest, fillcolor=FILL)

    results: dict[str, Any] = {
        "none": lambda: image,
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "posterize": lambda: ImageOps.posterize(image, 8 - round(4 * level)),
        "solarize": lambda: ImageOps.solarize(image, round(256 * (1 - level))),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "color": lambda: ImageEnhance.Color(image).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "rotate": lambda: image.rotate(30 * level * sign, fillcolor=FILL),
        "shear_x": lambda: affine(1, 0.3 * level * sign, 0, 0, 1, 0),
        "shear_y": lambda: affine(1, 0, 0, 0.3 * level * sign, 1, 0),
        "translate_x": lambda: affine(1, 0, sign * round(150 / 331 * level * width), 0, 1, 0),
        "translate_y": lambda: affine(1, 0, 0, 0, 1, sign * round(150 / 331 * level * height)),
    }
    result: Image.Image = results[name]()
    return result


IMAGES = {
    "wide": photo(30, 47),
    "high": photo(41, 20, 90, 110),
    "one color": np.full((8, 9, 3), (0, 77, 255), np.uint8),
    "noise": RNG.integers(0, 256, (12, 12, 3), np.uint8),
    "two values": np.where(RNG.random((16, 16, 3)) < 0.1, 3, 250).astype(np.uint8),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("image", IMAGES)
def test_distortion_does_what_pillow_does(name: str, image: str) -> None:
    pixels = IMAGES[image]
    for level, sign in ((0.3, 1.0), (0.9, -1.0), (1.0, 1.0), (0.5, -1.0)):
        expected = np.asarray(by_pillow(name, pixels, level, sign)).astype(int)
        found = distort(name, pixels, level, sign)
        differs = np.abs(found - expected)
        if name in ("rotate", "shear_x", "shear_y"):  # a pixel half way may take either
            assert (differs > 0).mean() < 0.01, (level, sign)
        else:  # Pillow cuts off, in some distortions twice
            assert differs.max() <= (2 if name == "sharpness" else 1), (level, sign)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"autocontrast", "equalize"}))
def test_distortion_at_level_0_changes_nothing(name: str) -> None:
    for sign in (1.0, -1.0):
        np.testing.assert_array_equal(distort(name, IMAGES["wide"], 0.0, sign), IMAGES["wide"])


@pytest.mark.parametrize("name", sorted({*NAMES} - {"none", "autocontrast", "equalize"}))
def test_distortion_changes_more_at_a_higher_level(name: str) -> None:
    original = IMAGES["wide"].astype(int)
    changes = [
        np.abs(distort(name, IMAGES["wide"], level, 1.0) - original).mean()
        for level in (0.3, 0.6, 1.0)
    ]
    assert 0 < changes[0] < changes[1] < changes[2]


def test_randaugment_applies_what_the_seed_of_each_image_draws() -> None:
    images = np.stack([photo(12, 15) for _ in range(40)])
    seeds = make_seeds(40)
    result = run("randaugment(3, 8, fill=9)", {"image": images}, seeds)["image"]
    drawn = []
    for image, original, numbers in zip(result, images, uniform_of(seeds, 6), strict=True):
        expected = original
        for choice, side in numbers.reshape(3, 2):
            drawn.append(NAMES[int(choice * np.float32(14))])
            expected = distort(drawn[-1], expected, 0.8, -1.0 if side < 0.5 else 1.0)
        np.testing.assert_array_equal(image, expected)
    assert {*drawn} == {*NAMES}


def test_randaugment_gives_the_same_in_any_group() -> None:
    examples = [{"image": photo(10, 12)} for _ in range(5)]
    check_transforms(examples, [], preprocess="randaugment")


@pytest.mark.parametrize(
    ("ops", "text"),
    [
        ("randaugment(0)", "num_layers must be an integer from 1 to 16; got 0"),
        ("randaugment(2, 11)", "magnitude must be a number from 0 to 10; got 11"),
        ("randaugment(fill=256)", "fill must be an integer from 0 to 255; got 256"),
    ],
)
def test_randaugment_wrong_arguments_are_refused(ops: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        build_transforms(ops)


@pytest.mark.parametrize(
    ("images", "text"),
    [
        (
            np.zeros((1, 4, 4, 3), np.float32),
            r"uint8 \[n, h, w, 3\].*float32.*in front of value_ra",
        ),
        (np.zeros((1, 4, 4, 1), np.uint8), r"uint8\[1, 4, 4, 1\].*name RGB images with key"),
        (ragged_images([IMAGES["wide"]]), "one size.*Put resize"),
    ],
)
def test_randaugment_other_images_are_named(images: object, text: str) -> None:
    with pytest.raises(FeatureError, match=text):
        run("randaugment", {"image": images})

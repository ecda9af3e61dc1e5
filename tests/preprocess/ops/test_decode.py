# SPDX-License-Identifier: Apache-2.0
"""Stored images become the windows that NumPy cuts out of them."""

import io
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.preprocess.ops.running import make_seeds, run
from tfjax_batches.errors import FeatureError
from tfjax_batches.preprocess.registry import build_transforms


def photo(height: int, width: int, mode: str = "RGB") -> Image.Image:
    rows, columns = np.mgrid[:height, :width]
    pixels = np.stack([rows * 255 / height, columns * 255 / width, (rows + columns) % 97], -1)
    return Image.fromarray(pixels.astype(np.uint8)).convert(mode)


def encode(image: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def pixels(encoded: bytes) -> np.ndarray:
    image: np.ndarray = tf.io.decode_image(encoded, 3, expand_animations=False).numpy()
    return image


def window_pixels(encoded: bytes, top: int, left: int, height: int, width: int) -> np.ndarray:
    if tf.io.is_jpeg(encoded):
        # Not cut out of the whole: along its edges libjpeg smooths colours otherwise.
        window = [top, left, height, width]
        stored = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
        cut: np.ndarray = stored.numpy().astype(int)
        assert np.abs(cut - pixels(encoded)[top : top + height, left : left + width]).mean() < 1
        return cut
    return pixels(encoded)[top : top + height, left : left + width]


JPEGS = [encode(photo(h, w), "jpeg") for h, w in ((60, 80), (90, 50), (33, 33))]
MIXED = [
    JPEGS[0],
    encode(photo(60, 80), "png"),
    encode(photo(40, 40, "L"), "jpeg"),
    encode(photo(40, 40, "CMYK"), "jpeg"),
    encode(photo(30, 64, "RGBA"), "png"),
]


def window_of(
    size: tuple[int, int], seed: np.ndarray, area: tuple[float, float], ratio: tuple[float, float]
) -> list[int]:
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        [*size, 3],
        [[[0.0, 0.0, 1.0, 1.0]]],
        seed,
        min_object_covered=0.0,
        aspect_ratio_range=ratio,
        area_range=area,
        max_attempts=100,
    )
    return [*begin.numpy()[:2], *extent.numpy()[:2]]


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize bilinearly, in float64: each result lies between the four pixels around it."""

    def axis(length: int, new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        place = np.clip((np.arange(new) + 0.5) * length / new - 0.5, 0, length - 1)
        low = place.astype(int)
        return low, np.minimum(low + 1, length - 1), place - low

    top, bottom, down = axis(image.shape[0], height)
    left, right, along = axis(image.shape[1], width)
    values = image.astype(np.float64)
    lines = values[top] + (values[bottom] - values[top]) * down[:, None, None]
    result: np.ndarray = lines[:, left] + (lines[:, right] - lines[:, left]) * along[:, None]
    return result


def assert_rounded(result: np.ndarray, exact: np.ndarray) -> None:
    assert result.dtype == np.uint8
    assert np.abs(result - exact).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("encoded", [JPEGS, MIXED], ids=["jpeg", "mixed"])
def test_decode_random_crop_is_a_window_of_the_decoded_image(encoded: list[bytes]) -> None:
    seeds = make_seeds(len(encoded))
    images = run("decode_random_crop((24, 32))", {"image": encoded}, seeds)["image"]
    assert images.shape == (len(encoded), 24, 32, 3)
    for image, stored, seed in zip(images, encoded, seeds, strict=True):
        window = window_of(pixels(stored).shape[:2], seed, (0.08, 1.0), (3 / 4, 4 / 3))
        assert_rounded(image, resized(window_pixels(stored, *window), 24, 32))


def test_decode_random_crop_windows_have_area_and_ratio_and_differ() -> None:
    seeds = make_seeds(200)
    windows = np.array([window_of((100, 100), seed, (0.25, 0.5), (0.5, 2.0)) for seed in seeds])
    images = run(
        "decode_random_crop(8, area=(0.25, 0.5), ratio=(0.5, 2.0))",
        {"image": [encode(photo(100, 100), "jpeg")] * 200},
        seeds,
    )["image"]
    assert len(np.unique(images, axis=0)) > 190
    areas = windows[:, 2] * windows[:, 3] / 1e4
    assert 0.23 < areas.min() < 0.3 < 0.45 < areas.max() < 0.52


@pytest.mark.parametrize(
    ("ops", "part"),
    [
        ("decode_central_crop(16)", lambda h, w: (min(h, w), min(h, w))),
        ("decode_central_crop(16, resize=20)", lambda h, w: (min(h, w) * 0.8,) * 2),
        ("decode_central_crop((8, 16))", lambda h, w: (min(h, w / 2), min(2 * h, w))),
    ],
)
def test_decode_central_crop_is_the_middle(
    ops: str, part: Callable[[int, int], tuple[float, float]]
) -> None:
    images = run(ops, {"image": MIXED})["image"]
    for image, stored in zip(images, MIXED, strict=True):
        whole = pixels(stored)
        height, width = (round(side) for side in part(*whole.shape[:2]))
        top, left = (whole.shape[0] - height) // 2, (whole.shape[1] - width) // 2
        cut = window_pixels(stored, top, left, height, width)
        assert_rounded(image, resized(cut, *image.shape[:2]))


def test_decode_gives_each_image_its_own_size() -> None:
    images = run("decode", {"image": MIXED})["image"]
    for image, stored in zip(images, MIXED, strict=True):
        np.testing.assert_array_equal(image.to_tensor(), pixels(stored))
    grey = run("decode('a/b', channels=1)|resize(20, key='a/b')", {"a": {"b": MIXED[:3]}})
    assert grey["a"]["b"].shape == (3, 20, 20, 1)


def test_decode_ops_ask_for_stored_bytes() -> None:
    ops = "decode|decode_random_crop(8, key='a/b')|decode_central_crop(8, key='c')"
    assert [t.encoded for t in build_transforms(ops)] == [("image",), ("a/b",), ("c",)]


def test_decode_ops_images_that_are_decoded_are_refused() -> None:
    with pytest.raises(FeatureError, match=r"Encoded images.*uint8\[2, 4"):
        run("decode_random_crop(8)", {"image": np.zeros((2, 4, 4, 3), np.uint8)})

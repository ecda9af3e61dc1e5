# SPDX-License-Identifier: Apache-2.0
"""Images are scaled as `tf.image.resize` does it, whole or in random windows, and rounded."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.preprocess.ops.running import make_seeds, ragged_images, run
from tests.preprocess.ops.test_decode import JPEGS, MIXED, encode, pixels, window_of, window_pixels
from tfjax_batches.config.op_grammar import parse_ops
from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.preprocess.registry import bind_call, build_transforms
from tfjax_batches.testing import check_transforms

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (4, 10, 12, 3), np.uint8)
SEVERAL = [RNG.integers(0, 256, (*size, 3), np.uint8) for size in [(20, 30), (31, 9), (7, 7)]]
METHODS = ("bilinear", "area", "bicubic", "gaussian", "lanczos3", "lanczos5", "nearest")


def rounded(image: np.ndarray, size: tuple[int, int], method: str, antialias: bool) -> np.ndarray:
    exact = tf.image.resize(image, size, method, antialias=antialias).numpy()
    result: np.ndarray = np.clip(np.round(exact), 0, 255).astype(np.uint8)
    return result


def assert_close(one: np.ndarray, other: np.ndarray) -> None:
    """Halves may be rounded either way."""
    assert one.shape == other.shape
    assert np.abs(one.astype(int) - other).max() <= 1


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_decode_crops_resize_by_any_method(method: str, antialias: bool) -> None:
    options = f"method={method!r}, antialias={antialias}"
    seeds = make_seeds(len(MIXED))
    images = run(f"decode_random_crop(24, {options})", {"image": MIXED}, seeds)["image"]
    for image, stored, seed in zip(images, MIXED, seeds, strict=True):
        window = window_of(pixels(stored).shape[:2], seed, (0.08, 1.0), (3 / 4, 4 / 3))
        cut = window_pixels(stored, *window).astype(np.uint8)
        assert_close(image, rounded(cut, (24, 24), method, antialias))
    middle = run(f"decode_central_crop(24, {options})", {"image": JPEGS[2:]})["image"]
    assert_close(middle[0], rounded(pixels(JPEGS[2]), (24, 24), method, antialias))


def test_decode_crops_clip_what_a_method_takes_beyond_bytes() -> None:
    edge = np.repeat(np.array([0, 0, 255, 255, 0, 0], np.uint8)[None, :, None], 6, 0).repeat(3, 2)
    stored = encode(Image.fromarray(edge), "png")
    extremes = [0.0]
    for width in range(3, 12):
        ops = f"decode_central_crop((3, {width}), method='lanczos3')"
        (image,) = run(ops, {"image": [stored]})["image"]
        exact = tf.image.resize(cut_middle(edge, 3, width), (3, width), "lanczos3").numpy()
        extremes += [exact.min(), exact.max()]
        assert_close(image, np.clip(np.round(exact), 0, 255).astype(np.uint8))
    assert min(extremes) < -1
    assert max(extremes) > 256


def cut_middle(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the largest part in the middle that has this shape."""
    scale = min(image.shape[0] / height, image.shape[1] / width)
    size = [round(scale * height), round(scale * width)]
    top, left = (image.shape[0] - size[0]) // 2, (image.shape[1] - size[1]) // 2
    return image[top : top + size[0], left : left + size[1]]


@pytest.mark.parametrize(
    "ops", ["decode_random_crop(8, {})", "decode_central_crop(8, {})", "inception_crop(8, {})"]
)
@pytest.mark.parametrize("wrong", ["method='cubic'", "antialias=1"])
def test_crops_another_method_is_refused(ops: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=f"{wrong.partition('=')[0]} must be one of"):
        build_transforms(ops.format(wrong))


def test_resize_small_keeps_the_aspect_ratio() -> None:
    images = run("resize_small(14)", {"image": ragged_images(SEVERAL)})["image"]
    assert isinstance(images, tf.RaggedTensor)
    sizes = [(14, 21), (48, 14), (14, 14)]  # 31 * 14 / 9 = 48.2
    for image, original, size in zip(images, SEVERAL, sizes, strict=True):
        np.testing.assert_array_equal(
            image.to_tensor(), rounded(original, size, "bilinear", antialias=False)
        )


@pytest.mark.parametrize("shape", [(4, 10, 12, 3), (4, 12, 10, 1), (2, 9, 16, 3), (1, 8, 20, 3)])
@pytest.mark.parametrize("size", [1, 4, 10, 13])
def test_resize_small_of_one_size_is_dense_and_the_same(shape: tuple[int, ...], size: int) -> None:
    images = RNG.integers(0, 256, shape, np.uint8)
    ops = f"resize_small({size}, method='area')"
    dense = run(ops, {"image": images})["image"]
    assert min(dense.shape[1:3]) == size
    assert dense.dtype == np.uint8
    ragged = run(ops, {"image": ragged_images(list(images))})["image"]
    np.testing.assert_array_equal(dense, ragged.to_tensor())


def test_resize_small_makes_the_usual_crop_for_evaluation() -> None:
    stored = {"image": MIXED}
    images = run("decode|resize_small(32)|central_crop(28)", stored)["image"]
    assert images.shape == (len(MIXED), 28, 28, 3)
    fused = run("decode_central_crop(28, resize=32)", stored)["image"]
    assert np.abs(images.astype(int) - fused).mean() < 8


@pytest.mark.parametrize("images", [ragged_images(SEVERAL), IMAGES])
def test_inception_crop_is_a_window_of_each_image(images: Any) -> None:
    originals = SEVERAL if isinstance(images, tf.RaggedTensor) else IMAGES
    seeds = make_seeds(len(originals))
    result = run("inception_crop((6, 5), method='bicubic')", {"image": images}, seeds)["image"]
    for image, original, seed in zip(result, originals, seeds, strict=True):
        top, left, height, width = window_of(original.shape[:2], seed, (0.05, 1.0), (3 / 4, 4 / 3))
        cut = original[top : top + height, left : left + width]
        np.testing.assert_array_equal(image, rounded(cut, (6, 5), "bicubic", antialias=False))
    part = run("inception_crop((6, 5), method='bicubic')", {"image": images[1:3]}, seeds[1:3])
    np.testing.assert_array_equal(part["image"], result[1:3])


def test_scaling_ops_keep_other_dtypes() -> None:
    floats = IMAGES.astype(np.float32) * 1000
    for ops in ("resize_small(5)", "inception_crop(5)"):
        result = run(ops, {"image": floats})["image"]
        assert result.dtype == np.float32
        assert result.max() > 255


@pytest.mark.parametrize("ops", ["resize_small(4)", "inception_crop(4)"])
def test_scaling_ops_what_is_no_image_is_named(ops: str) -> None:
    with pytest.raises(FeatureError, match=r"Put decode\('image'\) in front"):
        run(ops, {"image": [b"x"]})


@pytest.mark.parametrize(
    "ops", ["resize_small(3)", "inception_crop(4)", "copy('image', 'view')|inception_crop(4)"]
)
def test_scaling_ops_give_the_same_in_any_group(ops: str) -> None:
    check_transforms([{"image": image} for image in IMAGES], [], preprocess=ops)


def test_ops_of_big_vision_run_as_they_are_written_there() -> None:
    batch = {"image": MIXED, "label": np.arange(len(MIXED)), "rest": np.zeros(len(MIXED))}
    train = "decode|inception_crop(8)|flip_lr|value_range(-1, 1)|keep('image', 'label')"
    result = run(train, batch)
    assert sorted(result) == ["image", "label"]
    assert result["image"].shape == (len(MIXED), 8, 8, 3)
    assert result["image"].dtype == np.float32
    test = "decode|resize_small(10)|central_crop(8)|value_range(-1, 1)|drop('rest')"
    assert run(test, batch)["image"].shape == (len(MIXED), 8, 8, 3)


def test_decode_crops_saved_calls_hold_only_the_arguments_that_are_given() -> None:
    """So states that were saved before an op had another argument stay valid."""
    calls = parse_ops("decode_random_crop(224)|decode_central_crop(224, resize=256)")
    assert list(map(bind_call, calls)) == [
        ["decode_random_crop", {"size": 224}],
        ["decode_central_crop", {"size": 224, "resize": 256}],
    ]

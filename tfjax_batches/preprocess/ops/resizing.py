# SPDX-License-Identifier: Apache-2.0
"""Ops that scale decoded images, or random windows of them.

Images are [n, h, w, c] of any dtype of numbers, or differ in size: a ragged [n, (h), (w), c].
"""

from typing import Any

import tensorflow as tf

from tfjax_batches.features.paths import Name
from tfjax_batches.features.rows import Row, Value
from tfjax_batches.preprocess.argument_checks import (
    MAX_SIZE,
    check_choice,
    check_flag,
    check_integer,
    check_range,
    check_size,
)
from tfjax_batches.preprocess.ops.batch_features import get_images_of_any_size, map_feature
from tfjax_batches.preprocess.ops.image import map_each_image, map_images
from tfjax_batches.preprocess.ops.op_table import op
from tfjax_batches.preprocess.transforms import MapBatches

_METHODS = ("bilinear", "area", "bicubic", "gaussian", "lanczos3", "lanczos5", "nearest")

Range = tuple[float, float]


@op
def resize(
    size: int | tuple[int, int],
    method: str = "bilinear",
    antialias: bool = False,
    key: Name = "image",
) -> MapBatches:
    """Resize images, whatever their aspect ratio.

    [n, h, w, c], dense or ragged → [n, height, width, c] of the same dtype; integers are rounded
    and clipped to their range.

    Args:
        size: Side in pixels, or (height, width).
        method: Value of one of `tf.image.ResizeMethod`, such as "bilinear".
        antialias: Whether to smooth when making images smaller, as Pillow does; costs more.
        key: Name of the images.

    Raises:
        ConfigError: `size`, `method`, `antialias` or `key` is not what it must be.
        FeatureError: The feature is missing or not images.
    """
    sides = check_size(size)
    check_method(method, antialias)

    def resized(images: tf.Tensor, row: Row) -> tf.Tensor:
        return _resize(images, sides, method, antialias)

    return map_images(resized, key, sides)


@op
def resize_small(
    size: int,
    method: str = "bilinear",
    antialias: bool = False,
    key: Name = "image",
) -> MapBatches:
    """Resize images so that the shorter side has `size` pixels, and keep their aspect ratio.

    [n, h, w, c] → [n, h', w', c] of the same dtype; ragged → ragged [n, (h'), (w'), c], which a
    crop makes dense: `resize_small(256)|central_crop(224)` is the usual crop for evaluation. The
    longer side is rounded to whole pixels, and values as in `resize`. big_vision, which has an op
    of this name, takes method="area" unless told otherwise.

    Args:
        size: Shorter side in pixels.
        method: As in `resize`.
        antialias: As in `resize`.
        key: Name of the images.

    Raises:
        ConfigError: `size`, `method`, `antialias` or `key` is not what it must be.
        FeatureError: The feature is missing or not images.
    """
    check_integer("size", size, 1, MAX_SIZE)
    check_method(method, antialias)

    def fn(images: Value) -> Value:
        if not isinstance(images, tf.RaggedTensor):
            height, width = images.shape[1:3]
            short = min(height, width)
            sides = [round(side * size / short) for side in (height, width)]
            return _resize(images, sides, method, antialias)

        def resized(image: tf.Tensor, row: Row) -> tf.RaggedTensor:
            sides = tf.cast(tf.shape(image)[:2], tf.float64)
            sides = tf.cast(tf.round(sides * size / tf.reduce_min(sides)), tf.int32)
            return tf.RaggedTensor.from_tensor(_resize(image, sides, method, antialias))

        shape = [None, None, images.shape[3]]
        signature = tf.RaggedTensorSpec(shape, images.dtype, ragged_rank=1)
        return map_each_image(resized, images, signature, {})

    return map_feature(fn, key, get=get_images_of_any_size)


@op
def inception_crop(
    size: int | tuple[int, int],
    area: tuple[float, float] = (0.05, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    method: str = "bilinear",
    antialias: bool = False,
    key: Name = "image",
) -> MapBatches:
    """Cut a random window out of decoded images and resize it.

    [n, h, w, c], dense or ragged → [n, height, width, c] of the same dtype. `decode_random_crop`
    cuts the same windows out of stored images, faster, if `area` is the same; halves are rounded
    up there, and to even here. A share of 0.05 is the least in big_vision and in TensorFlow's
    official models, 0.08 in Szegedy et al., "Going Deeper with Convolutions", 2015.

    Args:
        size: Side in pixels, or (height, width).
        area: Smallest and largest share of the image that a window covers.
        ratio: Smallest and largest width / height of a window.
        method: As in `resize`.
        antialias: As in `resize`.
        key: Name of the images.

    Raises:
        ConfigError: An argument is not what it must be.
        FeatureError: The feature is missing or not images.
    """
    sides = check_size(size)
    area, ratio = check_window(area, ratio)
    check_method(method, antialias)

    def cut(image: tf.Tensor, row: Row) -> tf.Tensor:
        window = draw_window(tf.shape(image)[:2], row["seed"], area, ratio)
        top, left, height, width = tf.unstack(window)
        window_pixels = image[top : top + height, left : left + width]
        return _resize(window_pixels, sides, method, antialias)

    def fn(images: Value, seeds: tf.Tensor) -> Value:
        signature = tf.TensorSpec([*sides, images.shape[3]], images.dtype)
        return map_each_image(cut, images, signature, {"seed": seeds})

    return map_feature(fn, key, get=get_images_of_any_size, random=True)


def check_method(method: str, antialias: bool) -> None:
    """Raise unless these are such arguments of `resize`."""
    check_choice("method", method, _METHODS)
    check_flag("antialias", antialias)


def check_window(area: Range, ratio: Range) -> tuple[Range, Range]:
    """Return these arguments of `draw_window` as floats."""
    return check_range("area", area, most=1.0), check_range("ratio", ratio)


def draw_window(image_size: tf.Tensor, seed: tf.Tensor, area: Range, ratio: Range) -> tf.Tensor:
    """Return top, left, height and width of a random window, int32[4].

    Args:
        image_size: int32[2].
        seed: int32[2].
        area: Smallest and largest share of the image that it covers.
        ratio: Smallest and largest width / height.
    """
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.concat([image_size, [3]], 0),
        tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
        seed=seed,
        min_object_covered=0.0,
        aspect_ratio_range=ratio,
        area_range=area,
        max_attempts=100,
    )
    return tf.concat([begin[:2], extent[:2]], 0)


def _resize(images: tf.Tensor, size: Any, method: str, antialias: bool) -> tf.Tensor:
    """Return images [..., h, w, c] of another size and of the same dtype, rounded and clipped."""
    values = tf.image.resize(images, size, method, antialias=antialias)
    if images.dtype.is_integer:
        values = tf.round(values)
    return tf.saturate_cast(values, images.dtype)

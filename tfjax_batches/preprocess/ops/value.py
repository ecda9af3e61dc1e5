# SPDX-License-Identifier: Apache-2.0
"""Ops on values, element by element: their range and dtype. Features may be dense or ragged.

Where the device can do the same, let it: these ops turn one byte into four, which then travel.
"""

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import FeatureError
from tfjax_batches.features.paths import Name
from tfjax_batches.features.rows import Value
from tfjax_batches.preprocess.argument_checks import check_choice, check_number, check_numbers
from tfjax_batches.preprocess.ops.batch_features import (
    check_feature,
    describe,
    get_images_of_any_size,
    get_numbers,
    map_feature,
    map_values,
)
from tfjax_batches.preprocess.ops.op_table import op
from tfjax_batches.preprocess.transforms import MapBatches

_GREATEST = {tf.uint8: 255.0, tf.uint16: 65535.0, tf.int32: 255.0, tf.int64: 255.0}
"""Greatest value of images by dtype. TFDS has 16-bit PNGs, and 8-bit values as integers."""

_FLOATS = ("float32", "float64", "float16", "bfloat16")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


@op
def value_range(lo: float, hi: float, key: Name = "image") -> MapBatches:
    """Map integer values linearly from 0 … 255 to `lo` … `hi`.

    uint8, int32 or int64 [n, ...], dense or ragged → float32 [n, ...]; uint16 maps from
    0 … 65535.

    Args:
        lo: What 0 becomes.
        hi: What the greatest value becomes.
        key: Name of the feature.

    Raises:
        ConfigError: `lo` or `hi` is not a finite number, or `key` is not a name.
        FeatureError: The feature is missing or has another dtype.
    """
    low, high = check_number("lo", lo), check_number("hi", hi)

    def fn(value: Value) -> Value:
        rule = f"The feature must be {', '.join(dtype.name for dtype in _GREATEST)}"
        fix = "Write value_range once, and in front of an op that changes the dtype."
        check_feature(value.dtype in _GREATEST, rule, key, value, fix)
        scale = (high - low) / _GREATEST[value.dtype]
        return map_values(value, lambda flat: tf.cast(flat, tf.float32) * scale + low)

    return map_feature(fn, key, get=get_numbers)


@op
def normalize(
    mean: float | tuple[float, ...],
    std: float | tuple[float, ...],
    key: Name = "image",
    scale: float | None = None,
) -> MapBatches:
    """Subtract a mean and divide by a standard deviation, by channel.

    [n, h, w, c], dense or ragged → float32 [n, h, w, c]: `(image / scale - mean) / std`. Both
    ways to write ImageNet's mean and deviation give the same:

        normalize((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
        normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), scale=255)

    Args:
        mean: One number, or one for each channel, in the unit of the image after `scale`.
        std: The same, each above 0.
        key: Name of the images.
        scale: What images are divided by first, above 0. None: 1; integer images for which `mean`
            and `std` are all at most 1 need it, since these are then of images of 0 … 1.

    Raises:
        ConfigError: `mean` or `std` is not made of numbers, `std` or `scale` is not above 0, or
            `key` is not a name.
        FeatureError: The feature is missing, is not images of as many channels, or `scale` is
            needed and not given.
    """
    means, stds = check_numbers("mean", mean), check_numbers("std", std, above=0)
    unit = 1.0 if scale is None else check_number("scale", scale, above=0)

    def fn(images: Value) -> Value:
        channels = images.shape[3]
        if not {len(means), len(stds)} <= {1, channels}:
            raise FeatureError(
                "mean and std must have one number, or one for each channel; "
                f"{key!r} is {describe(images)}, mean has {len(means)} and std {len(stds)}. "
                "Give as many as channels."
            )
        if scale is None and images.dtype.is_integer and max(*means, *stds) <= 1:
            raise FeatureError(
                f"mean and std must be in the unit of the images; {key!r} is {describe(images)}, "
                f"mean={mean!r} and std={std!r} are of images of 0 to 1. Write scale=255 to divide "
                "by that first, or scale=1 if the images are as small."
            )
        scales = [1 / (unit * number) for number in _repeat(stds, channels)]
        shifts = [
            -m / s for m, s in zip(_repeat(means, channels), _repeat(stds, channels), strict=True)
        ]
        return map_values(images, lambda flat: _scale_channels(flat, scales, shifts))

    return map_feature(fn, key, get=get_images_of_any_size)


@op
def cast(dtype: str, key: Name = "image") -> MapBatches:
    """Convert the numbers of a feature to another dtype, without wrapping around.

    [n, ...], dense or ragged → the same shape. Floats are rounded to integers and clipped to their
    range; floats beyond the range of a narrower float become infinite. An integer that a narrower
    integer dtype cannot hold is an error when the example is read.

    Args:
        dtype: Name of the new dtype, such as `float32`.
        key: Name of the feature.

    Raises:
        ConfigError: `dtype` is not the name of a dtype of numbers, or `key` is not a name.
        FeatureError: The feature is missing or holds strings.
    """
    check_choice("dtype", dtype, (*_FLOATS, *_INTEGERS, "bool"))
    new = tf.as_dtype(dtype)

    def convert(flat: tf.Tensor) -> tf.Tensor:
        if flat.dtype.is_floating and new.is_integer:
            return _round_to(new, flat)
        converted = tf.cast(flat, new)
        are_integers = flat.dtype.is_integer and new.is_integer
        if are_integers and (flat.dtype.min < new.min or new.max < flat.dtype.max):
            is_same = (tf.cast(converted, flat.dtype) == flat) & ((converted < 0) == (flat < 0))
            tf.debugging.assert_equal(
                tf.reduce_all(is_same),
                True,
                f"{dtype} cannot hold some integers of {key!r}. Cast to a wider dtype.",
            )
        return converted

    return map_feature(lambda value: map_values(value, convert), key, get=get_numbers)


def _round_to(new: tf.DType, floats: tf.Tensor) -> tf.Tensor:
    """Return floats rounded to integers of a dtype, clipped to its range."""
    rounded = tf.round(floats)
    # The greatest integer may not be a float: saturate_cast stops at the last float below it.
    with np.errstate(over="ignore"):
        low, high = np.array([new.min, new.max]).astype(floats.dtype.as_numpy_dtype)
    clipped = tf.where(rounded >= high, tf.constant(new.max, new), tf.saturate_cast(rounded, new))
    return tf.where(rounded <= low, tf.constant(new.min, new), clipped)


def _repeat(numbers: tuple[float, ...], count: int) -> tuple[float, ...]:
    return numbers * count if len(numbers) == 1 else numbers


def _scale_channels(values: tf.Tensor, scales: list[float], shifts: list[float]) -> tf.Tensor:
    """Return float32 [..., w, c]: `values` times scales plus shifts."""
    shape, floats = tf.shape(values), tf.cast(values, tf.float32)
    width = values.shape[-2] if values.shape.rank == 4 else None
    if width is None:
        return floats * scales + shifts
    # A row of pixels at a time: a broadcast along a last dim of 3 takes six times as long.
    lines = tf.reshape(floats, [-1, width * len(scales)])
    return tf.ensure_shape(
        tf.reshape(lines * (scales * width) + shifts * width, shape), values.shape
    )

# SPDX-License-Identifier: Apache-2.0
"""Ops on values, element by element: their range and dtype.

Dense or ragged. Where there is a choice, leave them to the device: they make four bytes of one,
which then travel.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.preprocess.argument_checks import check_number, check_numbers, check_path
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    check_numeric,
    describe,
    get_feature,
    get_images,
    map_values,
    with_feature,
)
from tfjax_batches.preprocess.transforms import MapBatches

_LEVELS = {tf.uint8: 255.0, tf.uint16: 65535.0, tf.int32: 255.0, tf.int64: 255.0}
"""dtype of images → their greatest value. TFDS has 16-bit PNGs, and 8-bit values as integers."""

_CAST_DTYPES = (
    "bfloat16",
    "bool",
    "float16",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "uint16",
    "uint32",
    "uint8",
)


def value_range(lo: float, hi: float, key: str = "image") -> MapBatches:
    """Map integer values linearly from 0 … 255 to `lo` … `hi`.

    uint8, int32 or int64 [n, ...], dense or ragged → float32 [n, ...]; uint16 maps from
    0 … 65535.

    Args:
        lo: What 0 becomes.
        hi: What the greatest value becomes.
        key: Path of the feature.
    """
    low, high = check_number("lo", lo), check_number("hi", hi)
    check_path("key", key)

    def fn(batch: Batch) -> dict[str, Any]:
        value = get_feature("value_range", batch, key)
        levels = _levels("value_range", key, value)
        scale = (high - low) / levels
        mapped = map_values(value, lambda flat: tf.cast(flat, tf.float32) * scale + low)
        return with_feature(batch, key, mapped)

    return MapBatches(fn)


def normalize(
    mean: float | tuple[float, ...], std: float | tuple[float, ...], key: str = "image"
) -> MapBatches:
    """Subtract a mean and divide by a standard deviation, by channel.

    [n, h, w, c], dense or ragged → float32 [n, h, w, c].

    Integer images (uint8: 0 … 255) may have `mean` and `std` in their own unit, or in that of
    images of 0 … 1: they are of 0 … 1 where none of these numbers is above 1, and such images
    become `(image / 255 - mean) / std`. So both ways to write ImageNet's are right:

        normalize((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
        normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

    Float images become `(image - mean) / std`: there both are in the images' own unit.

    Args:
        mean: One number, or one of each channel.
        std: Likewise, each above 0.
        key: Path of the images.
    """
    means, stds = check_numbers("mean", mean), check_numbers("std", std)
    check_path("key", key)
    if min(stds) <= 0:
        raise ConfigError(f"std is above 0; got {std!r}. Write that of the data.")

    def fn(batch: Batch) -> dict[str, Any]:
        images = get_images("normalize", batch, key, ragged=True)
        channels = images.shape[3]
        if not {len(means), len(stds)} <= {1, channels}:
            raise FeatureError(
                f"normalize takes one mean and std, or one of each channel; {key!r} is "
                f"{describe(images)}, mean has {len(means)} and std {len(stds)}. "
                "Give as many as channels."
            )
        unit = 1.0
        if images.dtype.is_integer and max(*means, *stds) <= 1:
            unit = _levels("normalize", key, images)
        scales = [1 / (unit * number) for number in _repeat(stds, channels)]
        shifts = [
            -m / s for m, s in zip(_repeat(means, channels), _repeat(stds, channels), strict=True)
        ]
        return with_feature(
            batch, key, map_values(images, lambda flat: _scale_channels(flat, scales, shifts))
        )

    return MapBatches(fn)


def cast(dtype: str, key: str = "image") -> MapBatches:
    """Convert the numbers of a feature to another dtype, never wrapping around.

    [n, ...], dense or ragged → the same shape. Floats are rounded to integers, and those beyond
    the range of these become its ends; beyond the range of narrower floats they become infinite.
    Integers that a narrower integer dtype cannot hold are an error when they are read.

    Args:
        dtype: Name of the new one, such as `float32`.
        key: Path of the feature.
    """
    if dtype not in _CAST_DTYPES:
        raise ConfigError(
            f"dtype is one of {', '.join(_CAST_DTYPES)}; got {dtype!r}. Write 'float32'."
        )
    check_path("key", key)
    new = tf.as_dtype(dtype)

    def convert(flat: tf.Tensor) -> tf.Tensor:
        if flat.dtype.is_floating and new.is_integer:
            rounded = tf.round(flat)
            # The greatest integer may be no float: saturate_cast ends at the last float below it.
            with np.errstate(over="ignore"):
                low, high = np.array([new.min, new.max]).astype(flat.dtype.as_numpy_dtype)
            ends = tf.where(
                rounded >= high, tf.constant(new.max, new), tf.saturate_cast(rounded, new)
            )
            return tf.where(rounded <= low, tf.constant(new.min, new), ends)
        converted = tf.cast(flat, new)
        if flat.dtype.is_integer and new.is_integer and not _holds(new, flat.dtype):
            same = tf.reduce_all(
                (tf.cast(converted, flat.dtype) == flat) & ((converted < 0) == (flat < 0))
            )
            tf.debugging.assert_equal(
                same,
                True,
                f"cast keeps integers as they are; {dtype} cannot hold some of {key!r}. "
                "Cast to a wider dtype.",
            )
        return converted

    def fn(batch: Batch) -> dict[str, Any]:
        value = get_feature("cast", batch, key)
        check_numeric("cast", key, value)
        return with_feature(batch, key, map_values(value, convert))

    return MapBatches(fn)


def _holds(wide: tf.DType, narrow: tf.DType) -> bool:
    return bool(wide.min <= narrow.min and narrow.max <= wide.max)


def _levels(op: str, path: str, value: Any) -> float:
    """Return the greatest value of integer images."""
    check_numeric(op, path, value)
    if value.dtype not in _LEVELS:
        known = ", ".join(dtype.name for dtype in _LEVELS)
        raise FeatureError(
            f"{op} maps integer images, of {known}; {path!r} is {describe(value)}. "
            f"Put {op} in front of what makes it so."
        )
    return _LEVELS[value.dtype]


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

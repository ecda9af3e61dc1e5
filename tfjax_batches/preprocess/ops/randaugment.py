# SPDX-License-Identifier: Apache-2.0
"""RandAugment, and the distortions that it draws from.

A distortion takes an image uint8[h, w, 3] and a sign, 1.0 or -1.0, and returns such an image. Each
does what Pillow does at its level, except that it rounds where Pillow cuts off.
"""

import functools
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfjax_batches.features.paths import Name
from tfjax_batches.features.rows import Row
from tfjax_batches.preprocess.argument_checks import check_between, check_integer
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    check_feature,
    get_images,
    map_feature,
)
from tfjax_batches.preprocess.ops.op_table import op
from tfjax_batches.preprocess.random_numbers import randint, uniform
from tfjax_batches.preprocess.transforms import MapBatches

Distortion = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

_GREY = (0.299, 0.587, 0.114)  # shares of red, green and blue, as in ITU-R 601-2
_LEVELS = np.arange(256)


@op
def randaugment(
    num_layers: int = 2, magnitude: float = 9, key: Name = "image", fill: int = 128
) -> MapBatches:
    """Distort each image by a few ops drawn at random, all with one magnitude: RandAugment.

    uint8 [n, h, w, 3] → the same. Each layer draws one of the 14 distortions of Cubuk et al.,
    "RandAugment: Practical automated data augmentation with a reduced search space", 2020, for
    each image: none, autocontrast, equalize, and, with what they do at magnitude 10: rotate (30
    degrees), shear_x and shear_y (0.3), translate_x and translate_y (45 % of the side), posterize
    (to 4 bits), solarize (all values), color, contrast, brightness and sharpness (to 0.1 or 1.9 of
    it). Those with two directions take either. All grow with the magnitude and do nothing at 0, as
    in torchvision, whose magnitudes go to 30; in the paper's code some grow the other way.

    Args:
        num_layers: Distortions of each image, from 1 to 16. The paper uses 2 for ImageNet.
        magnitude: From 0 to 10. The paper uses 9 for ResNet-50.
        key: Name of the images.
        fill: Value of the pixels that rotations, shears and translations bring in, 0 to 255.

    Raises:
        ConfigError: `num_layers`, `magnitude`, `key` or `fill` is not what it must be.
        FeatureError: The feature is missing, or not uint8 RGB images of one size.
    """
    check_integer("num_layers", num_layers, 1, 16)
    level = check_between("magnitude", magnitude, 0, 10) / 10
    check_integer("fill", fill, 0, 255)
    distortions = [*make_distortions(level, fill).values()]

    def distort(image: tf.Tensor, draw: Row) -> tf.Tensor:
        branches = [functools.partial(each, image, draw["sign"]) for each in distortions]
        return tf.switch_case(draw["choice"], branches)

    def augment(row: Row) -> tf.Tensor:
        draws = {"choice": row["choice"], "sign": row["sign"]}
        return tf.foldl(distort, draws, initializer=row["image"])

    def fn(images: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        numbers = uniform(seeds, 2 * num_layers)
        rows = {
            "image": images,
            "choice": randint(numbers[:, ::2], len(distortions)),
            "sign": tf.where(numbers[:, 1::2] < 0.5, -1.0, 1.0),
        }
        # Loops over rows and layers: copies, each with all distortions, take seconds to trace.
        signature = tf.TensorSpec(images.shape[1:], images.dtype)
        return tf.map_fn(augment, rows, fn_output_signature=signature)

    return map_feature(fn, key, get=_get_rgb_images, random=True)


def make_distortions(level: float, fill: int) -> dict[str, Distortion]:
    """Return the distortions by name.

    Args:
        level: How strong they are, from 0 to 1.
        fill: Value of pixels that come from outside of the image.
    """
    shear, shift, angle = 0.3 * level, 150 / 331 * level, math.radians(30 * level)
    factor, lost_bits, threshold = 0.9 * level, round(4 * level), round(256 * (1 - level))
    posterized = _LEVELS >> lost_bits << lost_bits
    solarized = np.where(threshold > _LEVELS, _LEVELS, 255 - _LEVELS)

    def by_factor(enhance: Distortion) -> Distortion:
        return lambda image, sign: enhance(image, 1 + factor * sign)

    def by_matrix(matrix_of: Callable[[tf.Tensor, int, int], list[tf.Tensor]]) -> Distortion:
        def warp(image: tf.Tensor, sign: tf.Tensor) -> tf.Tensor:
            height, width = image.shape[:2]
            return _warp(image, matrix_of(sign, height, width), fill)

        return warp

    return {
        "none": lambda image, sign: image,
        "autocontrast": lambda image, sign: _autocontrast(image),
        "equalize": lambda image, sign: _equalize(image),
        "posterize": lambda image, sign: _look_up(image, posterized),
        "solarize": lambda image, sign: _look_up(image, solarized),
        "brightness": by_factor(_change_brightness),
        "contrast": by_factor(_change_contrast),
        "color": by_factor(_change_color),
        "sharpness": by_factor(_change_sharpness),
        "rotate": by_matrix(lambda sign, height, width: _rotation(sign, angle, height, width)),
        "shear_x": by_matrix(lambda sign, height, width: [1, shear * sign, 0, 0, 1, 0]),
        "shear_y": by_matrix(lambda sign, height, width: [1, 0, 0, shear * sign, 1, 0]),
        "translate_x": by_matrix(
            lambda sign, height, width: [1, 0, sign * round(shift * width), 0, 1, 0]
        ),
        "translate_y": by_matrix(
            lambda sign, height, width: [1, 0, 0, 0, 1, sign * round(shift * height)]
        ),
    }


def _get_rgb_images(batch: Batch, name: Name) -> tf.Tensor:
    images = get_images(batch, name)
    are_rgb = images.dtype == tf.uint8 and images.shape[3] == 3
    fix = "Put randaugment in front of value_range and normalize, or name RGB images with key."
    check_feature(are_rgb, "Images must be uint8 [n, h, w, 3]", name, images, fix)
    return images


def _look_up(image: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
    """Return the entry of a table [256] for each value, rounded and clipped."""
    return tf.gather(_to_bytes(tf.cast(table, tf.float32)), tf.cast(image, tf.int32))


def _look_up_by_channel(image: tf.Tensor, tables: tf.Tensor) -> tf.Tensor:
    """Return the entry of the table of its channel for each value; tables are integers [3, 256]."""
    entries = tf.reshape(tf.cast(tf.clip_by_value(tables, 0, 255), tf.uint8), [-1])
    return tf.reshape(tf.gather(entries, _channel_values(image)), image.shape)


def _channel_values(image: tf.Tensor) -> tf.Tensor:
    """Return int32[h, w * 3]: each value, plus 256 in the second channel and 512 in the third."""
    height, width = image.shape[:2]
    # A row of pixels at a time: a broadcast along a last dim of 3 takes six times as long.
    lines = tf.reshape(tf.cast(image, tf.int32), [height, width * 3])
    return lines + np.tile(np.array([0, 256, 512], np.int32), width)


def _count_values(image: tf.Tensor) -> tf.Tensor:
    """Return int32[3, 256]: how often each channel has each value."""
    counts = tf.math.bincount(_channel_values(image), minlength=3 * 256, maxlength=3 * 256)
    return tf.reshape(counts, [3, 256])


def _autocontrast(image: tf.Tensor) -> tf.Tensor:
    """Stretch the values of each channel to 0 … 255."""
    is_there = _count_values(image) > 0
    low = tf.reduce_min(tf.where(is_there, _LEVELS, 255), axis=1, keepdims=True)
    high = tf.reduce_max(tf.where(is_there, _LEVELS, 0), axis=1, keepdims=True)
    stretched = (_LEVELS - low) * 255 // tf.maximum(high - low, 1)
    return _look_up_by_channel(image, tf.where(high > low, stretched, _LEVELS))


def _equalize(image: tf.Tensor) -> tf.Tensor:
    """Spread the values of each channel so that all are about equally frequent."""
    counts = _count_values(image)
    last = tf.reduce_max(tf.where(counts > 0, _LEVELS, 0), axis=1)
    others = tf.reduce_sum(counts, axis=1) - tf.gather(counts, last, axis=1, batch_dims=1)
    step = others[:, tf.newaxis] // 255
    below = tf.cumsum(counts, axis=1, exclusive=True)
    spread = tf.cast((step // 2 + below) // tf.maximum(step, 1), tf.int64)
    return _look_up_by_channel(image, tf.where(step > 0, spread, _LEVELS))


def _change_brightness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    return _look_up(image, factor * _LEVELS.astype(np.float32))


def _change_contrast(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Move all values away from the mean of the grey image, or towards it."""
    means = tf.reduce_mean(tf.reshape(tf.cast(image, tf.float32), [-1, 3]), axis=0)
    mean = tf.round(tf.reduce_sum(means * _GREY))
    return _look_up(image, mean + factor * (_LEVELS.astype(np.float32) - mean))


def _change_color(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Move all pixels away from their grey, or towards it."""
    pixels = tf.reshape(tf.cast(image, tf.float32), [-1, 3])
    grey = np.array(_GREY, np.float32)[:, np.newaxis]
    mixed = tf.matmul(pixels, factor * np.eye(3, dtype=np.float32) + (1 - factor) * grey)
    return tf.reshape(_to_bytes(mixed), image.shape)


def _change_sharpness(image: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Move all pixels but those of the border away from a smoothed image, or towards it."""
    values = tf.cast(image, tf.float32)
    lines = values[:-2] + values[1:-1] + values[2:]
    squares = lines[:, :-2] + lines[:, 1:-1] + lines[:, 2:]
    inner = values[1:-1, 1:-1]
    smooth = (squares + 4 * inner) / 13
    change = (1 - factor) * (smooth - inner)
    return _to_bytes(values + tf.pad(change, [[1, 1], [1, 1], [0, 0]]))


def _rotation(sign: tf.Tensor, angle: float, height: int, width: int) -> list[tf.Tensor]:
    """Return the matrix of a rotation around the middle."""
    x, y = width / 2, height / 2
    cosine, sine = math.cos(angle), sign * math.sin(angle)
    return [cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y]


def _warp(image: tf.Tensor, matrix: list[tf.Tensor], fill: int) -> tf.Tensor:
    """Move pixels; each takes the nearest one.

    Args:
        image: The image.
        matrix: (a, b, c, d, e, f): what stands at (x, y) comes from (ax + by + c, dx + ey + f),
            where the middle of the first pixel is (½, ½).
        fill: Value of pixels that come from outside of the image.
    """
    a, b, c, d, e, f = matrix
    # TensorFlow's middle of the first pixel is (0, 0).
    moved = [a, b, c + (a + b - 1) / 2, d, e, f + (d + e - 1) / 2, 0.0, 0.0]
    (warped,) = tf.unstack(
        tf.raw_ops.ImageProjectiveTransformV3(
            images=image[tf.newaxis],
            transforms=tf.stack([tf.cast(each, tf.float32) for each in moved])[tf.newaxis],
            output_shape=image.shape[:2],
            fill_value=float(fill),
            interpolation="NEAREST",
            fill_mode="CONSTANT",
        ),
        num=1,
    )
    return tf.ensure_shape(warped, image.shape)


def _to_bytes(values: tf.Tensor) -> tf.Tensor:
    # + 0.5 rounds, since the cast cuts off.
    return tf.saturate_cast(values + 0.5, tf.uint8)

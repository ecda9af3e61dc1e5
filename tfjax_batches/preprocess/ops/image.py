# SPDX-License-Identifier: Apache-2.0
"""Ops on the pixels of decoded images, without scaling: windows, mirrors, blanks.

Images are [n, h, w, c] of any dtype of numbers. Ops that say so also take images that differ in
size, a ragged tensor [n, (h), (w), c], and make them dense.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfjax_batches.features.paths import Name
from tfjax_batches.features.rows import Row, Value, map_rows
from tfjax_batches.preprocess.argument_checks import (
    MAX_SIZE,
    check_between,
    check_integer,
    check_number,
    check_range,
    check_size,
)
from tfjax_batches.preprocess.ops.batch_features import (
    as_element,
    check_feature,
    get_images,
    get_images_of_any_size,
    map_feature,
)
from tfjax_batches.preprocess.ops.op_table import op
from tfjax_batches.preprocess.random_numbers import randint, uniform
from tfjax_batches.preprocess.transforms import MapBatches

_DRAWS = 10


@op
def central_crop(size: int | tuple[int, int], key: Name = "image") -> MapBatches:
    """Cut the middle out of images.

    [n, h, w, c], dense or ragged → [n, height, width, c]. If an odd number of pixels is cut off,
    the smaller half goes at the top and left. An image smaller than `size` is an error; `pad_crop`
    takes any.

    Args:
        size: Side in pixels, or (height, width).
        key: Name of the images.

    Raises:
        ConfigError: `size` is not made of sides in pixels, or `key` is not a name.
        FeatureError: The feature is missing, not images, or too small.
    """
    height, width = check_size(size)

    def crop(images: tf.Tensor, row: Row) -> tf.Tensor:
        _check_at_least(images, key, height, width)
        shape = tf.shape(images)
        top, left = (shape[-3] - height) // 2, (shape[-2] - width) // 2
        return images[..., top : top + height, left : left + width, :]

    return map_images(crop, key, (height, width))


@op
def pad_crop(size: int | tuple[int, int], key: Name = "image") -> MapBatches:
    """Bring images to a size without scaling: cut the middle out, or put zeros around, or both.

    [n, h, w, c], dense or ragged → [n, height, width, c]. As `tf.image.resize_with_crop_or_pad`.

    Args:
        size: Side in pixels, or (height, width).
        key: Name of the images.

    Raises:
        ConfigError: `size` is not made of sides in pixels, or `key` is not a name.
        FeatureError: The feature is missing or not images.
    """
    height, width = check_size(size)

    def padded(images: tf.Tensor, row: Row) -> tf.Tensor:
        return tf.image.resize_with_crop_or_pad(images, height, width)

    return map_images(padded, key, (height, width))


@op
def random_crop(size: int | tuple[int, int], padding: int = 0, key: Name = "image") -> MapBatches:
    """Cut a random window out of images, after zeros are put around them.

    [n, h, w, c], dense or ragged → [n, height, width, c]; all windows are equally likely.
    `random_crop(32, 4)` is the usual augmentation for CIFAR: He et al., "Deep Residual Learning
    for Image Recognition", 2016. An image that is too small with its padding is an error.

    Args:
        size: Side in pixels, or (height, width).
        padding: Zeros on each of the four sides, in pixels.
        key: Name of the images.

    Raises:
        ConfigError: `size` or `padding` is not made of pixels, or `key` is not a name.
        FeatureError: The feature is missing, not images, or too small.
    """
    height, width = check_size(size)
    check_integer("padding", padding, 0, MAX_SIZE)

    def crop(images: tf.Tensor, row: Row) -> tf.Tensor:
        _check_at_least(images, key, height, width, padding)
        around = [[0, 0]] * (images.shape.rank - 3) + [[padding, padding]] * 2 + [[0, 0]]
        images = tf.pad(images, around)
        shape = tf.shape(images)
        top = randint(row["numbers"][..., 0], shape[-3] - height + 1)
        left = randint(row["numbers"][..., 1], shape[-2] - width + 1)
        if images.shape.rank == 3:
            return images[top : top + height, left : left + width]
        rows = top[:, tf.newaxis] + tf.range(height)
        columns = left[:, tf.newaxis] + tf.range(width)
        images = tf.gather(images, rows, axis=1, batch_dims=1)
        return tf.gather(images, columns, axis=2, batch_dims=1)

    return map_images(crop, key, (height, width), random_numbers=2)


@op
def flip_lr(key: Name = "image") -> MapBatches:
    """Mirror each image from left to right with probability one half.

    [n, h, w, c] → the same.

    Args:
        key: Name of the images.

    Raises:
        ConfigError: `key` is not a name.
        FeatureError: The feature is missing, or not images of one size.
    """

    def fn(images: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        is_flipped = tf.cast(uniform(seeds, 1)[:, 0] < 0.5, tf.int32)
        # tf.where on bytes takes ten times as long as copying whole images.
        same, flipped = tf.dynamic_partition(images, is_flipped, 2)
        places = tf.dynamic_partition(tf.range(tf.shape(images)[0]), is_flipped, 2)
        joined = tf.dynamic_stitch(places, [same, _mirror(flipped)])
        return tf.ensure_shape(joined, images.shape)

    return map_feature(fn, key, get=get_images, random=True)


@op
def cutout(size: int, fill: float = 0.0, key: Name = "image") -> MapBatches:
    """Blank a square at a random place of each image.

    [n, h, w, c] → the same. The square's centre may be any pixel, so the square may stick out of
    the image. From DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks
    with Cutout", 2017, who blank with the mean, which is 0 after `normalize`.

    Args:
        size: Side of the square in pixels.
        fill: Value of the blank pixels; the images' dtype must be able to hold it.
        key: Name of the images.

    Raises:
        ConfigError: `size` is not a side in pixels, `fill` not a number, or `key` not a name.
        FeatureError: The feature is missing, not images of one size, or cannot hold `fill`.
    """
    check_integer("size", size, 1, MAX_SIZE)
    check_number("fill", fill)

    def fn(images: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        element = as_element("fill", fill, key, images)
        height, width = images.shape[1:3]
        numbers = uniform(seeds, 2)
        top = randint(numbers[:, 0], height) - size // 2
        left = randint(numbers[:, 1], width) - size // 2
        return _blank(images, (top, top + size), (left, left + size), element)

    return map_feature(fn, key, get=get_images, random=True)


@op
def random_erasing(
    probability: float = 0.5,
    area: tuple[float, float] = (0.02, 0.4),
    ratio: tuple[float, float] = (0.3, 1 / 0.3),
    fill: float = 0.0,
    key: Name = "image",
) -> MapBatches:
    """Blank a random rectangle of each image with some probability.

    [n, h, w, c] → the same. The rectangle lies within the image, all places equally likely. From
    Zhong et al., "Random Erasing Data Augmentation", 2020, with their shares, ratios and
    probability; they fill with random values or a mean, which is 0 after `normalize`. The logarithm
    of the ratio is uniform, as in torchvision, so that height and width are treated alike. If 10
    draws find no rectangle that fits, the last one is cut to the image.

    Args:
        probability: Of an image to lose a rectangle, 0 to 1.
        area: Smallest and largest share of the image that a rectangle covers.
        ratio: Smallest and largest width / height of a rectangle.
        fill: Value of the blank pixels; the images' dtype must be able to hold it.
        key: Name of the images.

    Raises:
        ConfigError: An argument is not what it must be.
        FeatureError: The feature is missing, not images of one size, or cannot hold `fill`.
    """
    check_between("probability", probability, 0, 1)
    area, ratio = check_range("area", area, most=1.0), check_range("ratio", ratio)
    check_number("fill", fill)

    def fn(images: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        element = as_element("fill", fill, key, images)
        height, width = images.shape[1:3]
        numbers = uniform(seeds, 3 + 2 * _DRAWS)
        is_hit = tf.cast(numbers[:, 0] < probability, tf.int32)
        sizes = _draw_rectangles(numbers[:, 3:], area, ratio, height, width) * is_hit[:, tf.newaxis]
        top = randint(numbers[:, 1], height - sizes[:, 0] + 1)
        left = randint(numbers[:, 2], width - sizes[:, 1] + 1)
        return _blank(images, (top, top + sizes[:, 0]), (left, left + sizes[:, 1]), element)

    return map_feature(fn, key, get=get_images, random=True)


def _draw_rectangles(
    numbers: tf.Tensor,
    area: tuple[float, float],
    ratio: tuple[float, float],
    height: int,
    width: int,
) -> tf.Tensor:
    """Return int32[n, 2], height and width, from numbers [n, 2 * _DRAWS]; the first that fits."""
    areas = height * width * (area[0] + (area[1] - area[0]) * numbers[:, ::2])
    low, high = map(math.log, ratio)
    ratios = tf.exp(low + (high - low) * numbers[:, 1::2])
    sizes = tf.stack([tf.round(tf.sqrt(areas / ratios)), tf.round(tf.sqrt(areas * ratios))], axis=2)
    fits = tf.reduce_all(sizes <= [height, width], axis=2)
    # argmax is the first True; if there is none, the last draw is taken.
    fits = tf.concat([fits[:, :-1], tf.ones_like(fits[:, -1:])], axis=1)
    first = tf.argmax(tf.cast(fits, tf.int32), axis=1)
    chosen = tf.gather(sizes, first, axis=1, batch_dims=1)
    return tf.cast(tf.clip_by_value(chosen, 1, [height, width]), tf.int32)


def _blank(
    images: tf.Tensor,
    rows: tuple[tf.Tensor, tf.Tensor],
    columns: tuple[tf.Tensor, tf.Tensor],
    element: np.generic,
) -> tf.Tensor:
    """Return images [n, h, w, c] with an element in a rectangle: from a first index to an end."""
    shape = tf.shape(images)
    in_rows, in_columns = _is_between(*rows, shape[1]), _is_between(*columns, shape[2])
    # Channels go with the columns: a broadcast along a last dim of 3 is many times slower.
    wide = tf.repeat(in_columns, shape[3], axis=1)
    is_blank = tf.reshape(in_rows[:, :, tf.newaxis] & wide[:, tf.newaxis, :], shape)
    value = tf.fill(shape, tf.constant(element, images.dtype))
    return tf.ensure_shape(tf.where(is_blank, value, images), images.shape)


def _is_between(first: tf.Tensor, end: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Return bool[n, length]: which indices are at least `first` and below `end`, int32[n]."""
    indices = tf.range(length)
    return (indices >= first[:, tf.newaxis]) & (indices < end[:, tf.newaxis])


def _mirror(images: tf.Tensor) -> tf.Tensor:
    # TensorFlow has a fast path for rank 3 only.
    shape = tf.shape(images)
    lines = tf.reshape(images, [-1, shape[2], images.shape[3] or shape[3]])
    return tf.reshape(tf.reverse(lines, [1]), shape)


def _check_at_least(
    images: tf.Tensor, name: Name, height: int, width: int, padding: int = 0
) -> None:
    """Raise for images smaller than a window; the graph does where sizes are not known yet."""
    rule = f"Images must be at least as large as the {height} × {width} cut out of them"
    fix = "Put resize in front, or use pad_crop."
    sides = images.shape[-3:-1]
    if sides.is_fully_defined():
        fits = sides[0] + 2 * padding >= height and sides[1] + 2 * padding >= width
        check_feature(fits, rule, name, images, fix)
    else:
        tf.debugging.assert_greater_equal(
            tf.shape(images)[-3:-1] + 2 * padding,
            [height, width],
            f"{rule}; an example of {name!r} is smaller. {fix}",
        )


def map_images(
    fn: Callable[[tf.Tensor, Row], tf.Tensor],
    key: Name,
    size: tuple[int, int],
    random_numbers: int = 0,
) -> MapBatches:
    """Return the transform that brings images, dense or ragged, to one size.

    Args:
        fn: Takes images [n, h, w, c] and numbers [n, random_numbers], by the name "numbers"; or,
            since images that differ in size come one by one, [h, w, c] and [random_numbers].
        key: Name of the images.
        size: Height and width of the result.
        random_numbers: How many uniform random numbers each image takes.
    """

    def apply(images: Value, *seeds: tf.Tensor) -> tf.Tensor:
        numbers = {"numbers": uniform(seeds[0], random_numbers)} if seeds else {}
        channels = images.shape[3]
        if isinstance(images, tf.RaggedTensor):
            return map_each_image(
                fn, images, tf.TensorSpec([*size, channels], images.dtype), numbers
            )
        return tf.ensure_shape(fn(images, numbers), [images.shape[0], *size, channels])

    return map_feature(apply, key, get=get_images_of_any_size, random=random_numbers > 0)


def map_each_image(
    fn: Callable[[tf.Tensor, Row], Value], images: Value, signature: Any, numbers: Row
) -> Value:
    """Return `fn` of each image [h, w, c], dense or ragged, and of its row of `numbers`."""

    def fn_of_row(row: Mapping[str, Any]) -> Value:
        image = row["image"]
        return fn(image.to_tensor() if isinstance(image, tf.RaggedTensor) else image, row)

    return map_rows(fn_of_row, {"image": images, **numbers}, signature)

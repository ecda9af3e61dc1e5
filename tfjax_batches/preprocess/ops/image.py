# SPDX-License-Identifier: Apache-2.0
"""Ops on the pixels of decoded images: sizes, windows, mirrors.

Images are [n, h, w, c] of any number type. Those that say so also take images of several sizes, a
ragged tensor [n, (h), (w), c], which they make dense.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.features.rows import Example, map_rows
from tfjax_batches.preprocess.argument_checks import (
    MAX_SIZE,
    check_flag,
    check_integer,
    check_number,
    check_path,
    check_size,
)
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    Value,
    as_element,
    describe,
    get_images,
    with_feature,
)
from tfjax_batches.preprocess.random_numbers import randint, uniform
from tfjax_batches.preprocess.transforms import MapBatches

RESIZE_METHODS = ("area", "bicubic", "bilinear", "gaussian", "lanczos3", "lanczos5", "nearest")


def resize(
    size: int | tuple[int, int],
    method: str = "bilinear",
    antialias: bool = False,
    key: str = "image",
) -> MapBatches:
    """Resize images, whatever their aspect ratio.

    [n, h, w, c], dense or ragged → [n, height, width, c] of the same dtype; integers are rounded
    and stay within their range.

    Args:
        size: Side in pixels, or (height, width).
        method: One of `tf.image.ResizeMethod`, in small letters.
        antialias: Smooth what is made smaller, as Pillow does; costs more.
        key: Path of the images.
    """
    sides = check_size(size)
    if method not in RESIZE_METHODS:
        raise ConfigError(f"method is one of {RESIZE_METHODS}; got {method!r}. Leave it out.")
    check_flag("antialias", antialias)
    check_path("key", key)

    def resized(images: tf.Tensor, row: Example) -> tf.Tensor:
        values = tf.image.resize(images, sides, method, antialias=antialias)
        if images.dtype.is_integer and values.dtype != images.dtype:
            values = tf.round(values)
        return tf.saturate_cast(values, images.dtype)

    def fn(batch: Batch) -> dict[str, Any]:
        images = get_images("resize", batch, key, ragged=True)
        return with_feature(batch, key, _map_images(resized, images, {}, sides))

    return MapBatches(fn)


def central_crop(size: int | tuple[int, int], key: str = "image") -> MapBatches:
    """Cut the middle out of images.

    [n, h, w, c], dense or ragged → [n, height, width, c]. Of an odd rest the smaller half is cut
    off at the top and left. A smaller image is an error; `pad_crop` takes any.

    Args:
        size: Side in pixels, or (height, width).
        key: Path of the images.
    """
    height, width = check_size(size)
    check_path("key", key)

    def crop(images: tf.Tensor, row: Example) -> tf.Tensor:
        _check_at_least("central_crop", images, key, height, width)
        shape = tf.shape(images)
        top, left = (shape[-3] - height) // 2, (shape[-2] - width) // 2
        return images[..., top : top + height, left : left + width, :]

    def fn(batch: Batch) -> dict[str, Any]:
        images = get_images("central_crop", batch, key, ragged=True)
        return with_feature(batch, key, _map_images(crop, images, {}, (height, width)))

    return MapBatches(fn)


def pad_crop(size: int | tuple[int, int], key: str = "image") -> MapBatches:
    """Bring images to a size without scaling: cut the middle out, or put zeros around, or both.

    [n, h, w, c], dense or ragged → [n, height, width, c]. As
    `tf.image.resize_with_crop_or_pad`.

    Args:
        size: Side in pixels, or (height, width).
        key: Path of the images.
    """
    height, width = check_size(size)
    check_path("key", key)

    def padded(images: tf.Tensor, row: Example) -> tf.Tensor:
        return tf.image.resize_with_crop_or_pad(images, height, width)

    def fn(batch: Batch) -> dict[str, Any]:
        images = get_images("pad_crop", batch, key, ragged=True)
        return with_feature(batch, key, _map_images(padded, images, {}, (height, width)))

    return MapBatches(fn)


def random_crop(size: int | tuple[int, int], padding: int = 0, key: str = "image") -> MapBatches:
    """Cut a random window out of images, after zeros are put around them.

    [n, h, w, c], dense or ragged → [n, height, width, c]; each place of a window is as likely.
    `random_crop(32, 4)` is what CIFAR is trained with: He et al., "Deep Residual Learning for
    Image Recognition", 2016. An image that is smaller with its padding is an error.

    Args:
        size: Side in pixels, or (height, width).
        padding: Zeros put on each of the four sides first, in pixels.
        key: Path of the images.
    """
    height, width = check_size(size)
    check_integer("padding", padding, 0, MAX_SIZE)
    check_path("key", key)

    def crop(images: tf.Tensor, row: Example) -> tf.Tensor:
        _check_at_least("random_crop", images, key, height, width, padding)
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

    def fn(batch: Batch, seeds: tf.Tensor) -> dict[str, Any]:
        images = get_images("random_crop", batch, key, ragged=True)
        numbers = {"numbers": uniform(seeds, 2)}
        return with_feature(batch, key, _map_images(crop, images, numbers, (height, width)))

    return MapBatches(fn, random=True)


def flip_lr(key: str = "image") -> MapBatches:
    """Mirror each image from left to right, with a chance of one half.

    [n, h, w, c] → the same.

    Args:
        key: Path of the images.
    """
    check_path("key", key)

    def fn(batch: Batch, seeds: tf.Tensor) -> dict[str, Any]:
        images = get_images("flip_lr", batch, key)
        is_flipped = tf.cast(uniform(seeds, 1)[:, 0] < 0.5, tf.int32)
        # tf.where on bytes takes ten times as long as copying whole images.
        kept, flipped = tf.dynamic_partition(images, is_flipped, 2)
        places = tf.dynamic_partition(tf.range(tf.shape(images)[0]), is_flipped, 2)
        joined = tf.dynamic_stitch(places, [kept, _mirror(flipped)])
        return with_feature(batch, key, tf.ensure_shape(joined, images.shape))

    return MapBatches(fn, random=True)


def cutout(size: int, fill: float = 0.0, key: str = "image") -> MapBatches:
    """Blank a square at a random place of each image.

    [n, h, w, c] → the same. The square's centre is any pixel, so that it may stick out of the
    image. From DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with
    Cutout", 2017, who blank with the mean: 0 behind `normalize`.

    Args:
        size: Side of the square in pixels.
        fill: Value of the blank pixels; one that the images' dtype holds.
        key: Path of the images.
    """
    check_integer("size", size, 1, MAX_SIZE)
    check_number("fill", fill)
    check_path("key", key)

    def fn(batch: Batch, seeds: tf.Tensor) -> dict[str, Any]:
        images = get_images("cutout", batch, key)
        element = as_element("cutout", "fill", fill, key, images)
        shape = tf.shape(images)
        numbers = uniform(seeds, 2)
        in_rows = _is_near(randint(numbers[:, 0], shape[1]), shape[1], size)
        in_columns = _is_near(randint(numbers[:, 1], shape[2]), shape[2], size)
        # Channels lie with the columns: a broadcast along a last dim of 3 is many times as slow.
        wide = tf.repeat(in_columns, shape[3], axis=1)
        blank = tf.reshape(in_rows[:, :, tf.newaxis] & wide[:, tf.newaxis, :], shape)
        value = tf.fill(shape, tf.constant(element, images.dtype))
        return with_feature(
            batch, key, tf.ensure_shape(tf.where(blank, value, images), images.shape)
        )

    return MapBatches(fn, random=True)


def _is_near(centers: tf.Tensor, length: tf.Tensor, size: int) -> tf.Tensor:
    """Return bool[n, length]: which places lie in the `size` around each centre."""
    first = centers[:, tf.newaxis] - size // 2
    places = tf.range(length)
    return (places >= first) & (places < first + size)


def _mirror(images: tf.Tensor) -> tf.Tensor:
    # TensorFlow has a fast way for rank 3 alone.
    shape = tf.shape(images)
    lines = tf.reshape(images, [-1, shape[2], images.shape[3] or shape[3]])
    return tf.reshape(tf.reverse(lines, [1]), shape)


def _check_at_least(
    op: str, images: tf.Tensor, path: str, height: int, width: int, padding: int = 0
) -> None:
    """Raise for images, or in the graph for one image, smaller than a window."""
    needed = f"{op} cuts {height} × {width} out of images at least as large"
    mend = "Put resize in front, or use pad_crop."
    known = images.shape[-3:-1].as_list()
    if any(
        side is not None and side + 2 * padding < least
        for side, least in zip(known, (height, width), strict=True)
    ):
        raise FeatureError(f"{needed}; {path!r} is {describe(images)}. {mend}")
    if None in known:
        tf.debugging.assert_greater_equal(
            tf.shape(images)[-3:-1] + 2 * padding,
            [height, width],
            f"{needed}; an example of {path!r} is smaller. {mend}",
        )


def _map_images(
    fn: Callable[[tf.Tensor, Example], tf.Tensor],
    images: Value,
    numbers: Example,
    size: tuple[int, int],
) -> tf.Tensor:
    """Return [n, *size, c]: `fn(images, numbers)` at once, or of each image that has its own size.

    Args:
        fn: Takes images [n, h, w, c], or one [h, w, c], and `numbers` or a row of these.
        images: Dense or ragged.
        numbers: [n, ...] of each.
        size: Height and width of the result.
    """
    if not isinstance(images, tf.RaggedTensor):
        return tf.ensure_shape(fn(images, numbers), [images.shape[0], *size, images.shape[3]])

    def fn_of_row(row: Mapping[str, Any]) -> tf.Tensor:
        image = row["image"]
        return fn(image.to_tensor() if isinstance(image, tf.RaggedTensor) else image, row)

    signature = tf.TensorSpec([*size, images.shape[3]], images.dtype)
    return map_rows(fn_of_row, {"image": images, **numbers}, signature)

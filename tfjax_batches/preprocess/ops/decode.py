# SPDX-License-Identifier: Apache-2.0
"""Ops that decode stored images, and only the part of each that they need.

Each takes the stored bytes of its feature, so the reader does not decode it.
"""

from collections.abc import Callable

import tensorflow as tf

from tfjax_batches.features.paths import Name
from tfjax_batches.features.rows import Row, map_rows
from tfjax_batches.preprocess.argument_checks import (
    MAX_SIZE,
    check_choice,
    check_integer,
    check_size,
)
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    check_feature,
    get_feature,
    map_feature,
)
from tfjax_batches.preprocess.ops.op_table import op
from tfjax_batches.preprocess.ops.resizing import check_method, check_window, draw_window
from tfjax_batches.preprocess.transforms import MapBatches

WindowOf = Callable[[tf.Tensor, Row], tf.Tensor]
"""(size of an image: int32[2], example) → top, left, height, width of its window: int32[4]."""

Resize = Callable[[tf.Tensor], tf.Tensor]
"""An image uint8[h, w, 3] → an image of the wanted size, of the same dtype."""


@op
def decode(key: Name = "image", channels: int = 3) -> MapBatches:
    """Decode whole images: JPEG, PNG, GIF or BMP, as the bytes of each say.

    string[n] → uint8[n, (h), (w), channels], ragged. Readers decode images without this op. It is
    for bytes that other ops see first, and for string features that hold images.

    Args:
        key: Name of the feature.
        channels: 3 (RGB); 1 (grey), if no image is a JPEG in CMYK; or 4 (RGBA), if all are PNG.

    Raises:
        ConfigError: `channels` is not 1, 3 or 4, or `key` is not a name.
        FeatureError: The feature is missing, or not one string an example.
    """
    check_choice("channels", channels, (3, 1, 4))

    def fn(encoded: tf.Tensor) -> tf.RaggedTensor:
        return map_rows(
            lambda row: tf.RaggedTensor.from_tensor(_decode_any(row["encoded"], channels)),
            {"encoded": encoded},
            tf.RaggedTensorSpec([None, None, channels], tf.uint8, ragged_rank=1),
        )

    return map_feature(fn, key, get=_get_encoded, encoded=True)


@op
def decode_random_crop(
    size: int | tuple[int, int],
    area: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    key: Name = "image",
    method: str = "bilinear",
    antialias: bool = False,
) -> MapBatches:
    """Decode a random window of each image and resize it: the crop that Inception trained with.

    string[n] → uint8[n, height, width, 3]. Only the window of a JPEG is decoded; other images are
    decoded whole. The window is drawn by `tf.image.stateless_sample_distorted_bounding_box`; if 100
    draws find none that fits, it is the whole image. Resized and rounded. From Szegedy et al.,
    "Going Deeper with Convolutions", 2015.

    Args:
        size: Side in pixels, or (height, width).
        area: Smallest and largest share of the image that a window covers.
        ratio: Smallest and largest width / height of a window.
        key: Name of the feature.
        method: As in `resize`.
        antialias: As in `resize`.

    Raises:
        ConfigError: An argument is not what it must be.
        FeatureError: The feature is missing, or not one string an example.
    """
    sides = check_size(size)
    resize = _resize_to(sides, method, antialias)
    area, ratio = check_window(area, ratio)

    def window_of(image_size: tf.Tensor, row: Row) -> tf.Tensor:
        return draw_window(image_size, row["seed"], area, ratio)

    def fn(encoded: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
        return _decode_windows({"encoded": encoded, "seed": seeds}, window_of, resize, sides)

    return map_feature(fn, key, get=_get_encoded, random=True, encoded=True)


@op
def decode_central_crop(
    size: int | tuple[int, int],
    resize: int | None = None,
    key: Name = "image",
    method: str = "bilinear",
    antialias: bool = False,
) -> MapBatches:
    """Decode the central window of each image and resize it: the usual crop for evaluation.

    string[n] → uint8[n, height, width, 3]: the middle of the image after its shorter side is
    resized to `resize`, in one step and without decoding the rest. `decode_central_crop(224,
    resize=256)` is the usual crop for ImageNet. Resized and rounded.

    Args:
        size: Side in pixels, or (height, width).
        resize: Shorter side of the image that `size` is cut from, not shorter than `size`. None:
            the largest window of that shape.
        key: Name of the feature.
        method: As in `resize`.
        antialias: As in `resize`.

    Raises:
        ConfigError: An argument is not what it must be.
        FeatureError: The feature is missing, or not one string an example.
    """
    size = check_size(size)
    resize_window = _resize_to(size, method, antialias)
    if resize is not None:
        check_integer("resize", resize, max(size), MAX_SIZE)

    def window_of(image_size: tf.Tensor, row: Row) -> tf.Tensor:
        sides, wanted = tf.cast(image_size, tf.float32), tf.constant(size, tf.float32)
        scale = tf.reduce_min(sides / (wanted if resize is None else float(resize)))
        extent = tf.cast(tf.round(scale * wanted), tf.int32)
        extent = tf.clip_by_value(extent, 1, image_size)
        return tf.concat([(image_size - extent) // 2, extent], 0)

    def fn(encoded: tf.Tensor) -> tf.Tensor:
        return _decode_windows({"encoded": encoded}, window_of, resize_window, size)

    return map_feature(fn, key, get=_get_encoded, encoded=True)


def _get_encoded(batch: Batch, name: Name) -> tf.Tensor:
    """Return stored images, string[n]."""
    encoded = get_feature(batch, name)
    is_encoded = encoded.dtype == tf.string and encoded.shape.rank == 1
    fix = "Leave out the op in front that decodes it, or use resize or a crop instead of this op."
    check_feature(is_encoded, "Encoded images must be one string each", name, encoded, fix)
    return encoded


def _resize_to(size: tuple[int, int], method: str, antialias: bool) -> Resize:
    """Return the function that resizes images to (height, width)."""
    check_method(method, antialias)

    def resize(image: tf.Tensor) -> tf.Tensor:
        values = tf.image.resize(image, size, method, antialias=antialias)
        # + 0.5 rounds, since the cast cuts off; saturated, since bicubic values may leave 0 to 255.
        return tf.saturate_cast(tf.cast(values, tf.float32) + 0.5, tf.uint8)

    return resize


def _decode_windows(
    rows: Row, window_of: WindowOf, resize: Resize, size: tuple[int, int]
) -> tf.Tensor:
    """Return a window of each image, resized: uint8[n, *size, 3].

    Args:
        rows: The images as "encoded", and what `window_of` needs.
        window_of: Chooses the window.
        resize: Brings a window to `size`.
        size: Height and width of the result.
    """

    def decode_jpeg(row: Row) -> tf.Tensor:
        image_size = tf.io.extract_jpeg_shape(row["encoded"])[:2]
        window = window_of(image_size, row)
        return resize(tf.image.decode_and_crop_jpeg(row["encoded"], window, channels=3))

    def decode_other(row: Row) -> tf.Tensor:
        image = _decode_any(row["encoded"], 3)
        top, left, window_height, window_width = tf.unstack(window_of(tf.shape(image)[:2], row))
        return resize(image[top : top + window_height, left : left + window_width])

    # A loop: with a copy of this graph for each row, all decoded images are in memory at once, and
    # an image takes a sixth more CPU time.
    return tf.map_fn(
        lambda row: tf.cond(
            tf.io.is_jpeg(row["encoded"]), lambda: decode_jpeg(row), lambda: decode_other(row)
        ),
        rows,
        fn_output_signature=tf.TensorSpec([*size, 3], tf.uint8),
    )


def _decode_any(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    """Return uint8[h, w, channels], the first frame of an animation."""
    image = tf.io.decode_image(encoded, channels, expand_animations=False)
    return tf.ensure_shape(image, [None, None, channels])

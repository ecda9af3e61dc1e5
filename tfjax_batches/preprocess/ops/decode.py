# SPDX-License-Identifier: Apache-2.0
"""Ops that decode stored images, and as little of each as they need.

Each asks for the stored bytes of its feature, so that the reader does not decode it.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjax_batches.errors import ConfigError, FeatureError, nearest_hint
from tfjax_batches.features.rows import Example, map_rows
from tfjax_batches.preprocess.argument_checks import (
    check_integer,
    check_path,
    check_range,
    check_size,
)
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    describe,
    feature_paths,
    get_feature,
    with_feature,
)
from tfjax_batches.preprocess.transforms import MapBatches

WindowOf = Callable[[tf.Tensor, Example], tf.Tensor]
"""(size of an image: int32[2], row) → top, left, height, width of the part to keep: int32[4]."""


def decode(key: str = "image", channels: int = 3) -> MapBatches:
    """Decode whole images: JPEG, PNG, GIF or BMP, each as its own bytes say.

    string[n] → uint8[n, (h), (w), channels], ragged: each image has its own size. `resize` or a
    crop makes them one. A reader decodes by itself; this is for bytes that other ops see first,
    and for a string feature that holds images.

    Args:
        key: Path of the feature.
        channels: Of the result: 3 (RGB); 1 (grey), where none is a JPEG in CMYK; or 4 (RGBA),
            where all are PNG.
    """
    check_path("key", key)
    if type(channels) is not int or channels not in (1, 3, 4):
        raise ConfigError(f"channels is 1, 3 or 4; got {channels!r}. Write channels=3.")

    def fn(batch: Batch) -> dict[str, Any]:
        encoded = _get_encoded("decode", batch, key)
        images = map_rows(
            lambda row: tf.RaggedTensor.from_tensor(_decode_any(row["encoded"], channels)),
            {"encoded": encoded},
            tf.RaggedTensorSpec([None, None, channels], tf.uint8, ragged_rank=1),
        )
        return with_feature(batch, key, images)

    return MapBatches(fn, encoded=(key,))


def decode_random_crop(
    size: int | tuple[int, int],
    area: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    key: str = "image",
) -> MapBatches:
    """Decode a random window of each image and resize it: the crop that Inception trained with.

    string[n] → uint8[n, height, width, 3]. Of a JPEG the window alone is decoded; of any other
    encoding the whole. The window is drawn by `tf.image.stateless_sample_distorted_bounding_box`;
    where 100 draws find none that fits, it is the whole image. Resized bilinearly, and rounded.
    From Szegedy et al., "Going Deeper with Convolutions", 2015.

    Args:
        size: Side in pixels, or (height, width).
        area: Least and greatest share of the image that a window covers.
        ratio: Least and greatest width / height of a window.
        key: Path of the feature.
    """
    height, width = check_size(size)
    areas = check_range("area", area, most=1.0)
    ratios = check_range("ratio", ratio)
    check_path("key", key)

    def window_of(image_size: tf.Tensor, row: Example) -> tf.Tensor:
        begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.concat([image_size, [3]], 0),
            tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
            seed=row["seed"],
            min_object_covered=0.0,
            aspect_ratio_range=ratios,
            area_range=areas,
            max_attempts=100,
        )
        return tf.concat([begin[:2], extent[:2]], 0)

    def fn(batch: Batch, seeds: tf.Tensor) -> dict[str, Any]:
        encoded = _get_encoded("decode_random_crop", batch, key)
        rows = {"encoded": encoded, "seed": seeds}
        return with_feature(batch, key, _decode_windows(rows, window_of, height, width))

    return MapBatches(fn, random=True, encoded=(key,))


def decode_central_crop(
    size: int | tuple[int, int], resize: int | None = None, key: str = "image"
) -> MapBatches:
    """Decode the central window of each image and resize it: the usual crop to evaluate with.

    string[n] → uint8[n, height, width, 3]: what `size` cuts from the middle of the image once it
    is resized so that its shorter side is `resize`, in one step and without decoding the rest.
    `decode_central_crop(224, resize=256)` is that of ImageNet. Resized bilinearly, and rounded.

    Args:
        size: Side in pixels, or (height, width).
        resize: Shorter side of the image that `size` is cut from, no shorter than `size`. None:
            the largest window of that shape.
        key: Path of the feature.
    """
    height, width = check_size(size)
    longer = max(height, width)
    shorter_side = None if resize is None else check_integer("resize", resize, longer, 2**16)
    check_path("key", key)

    def window_of(image_size: tf.Tensor, row: Example) -> tf.Tensor:
        sides = tf.cast(image_size, tf.float32)
        if shorter_side is None:
            scale = tf.reduce_min(sides / [float(height), float(width)])
        else:
            scale = tf.reduce_min(sides) / shorter_side
        extent = tf.cast(tf.round(scale * [float(height), float(width)]), tf.int32)
        extent = tf.clip_by_value(extent, 1, image_size)
        return tf.concat([(image_size - extent) // 2, extent], 0)

    def fn(batch: Batch) -> dict[str, Any]:
        encoded = _get_encoded("decode_central_crop", batch, key)
        rows = {"encoded": encoded}
        return with_feature(batch, key, _decode_windows(rows, window_of, height, width))

    return MapBatches(fn, encoded=(key,))


def _get_encoded(op: str, batch: Batch, path: str) -> tf.Tensor:
    if path not in feature_paths(batch):
        raise FeatureError(
            f"{op} decodes a stored feature itself; the batch has none at {path!r} any more. Put "
            f"{op} in front of what renames or drops it. {nearest_hint(path, feature_paths(batch))}"
        )
    encoded = get_feature(op, batch, path)
    if encoded.dtype != tf.string or encoded.shape.rank != 1:
        raise FeatureError(
            f"{op} takes encoded images, one string each; {path!r} is {describe(encoded)}. "
            f"Put no op in front that decodes it, or use resize or a crop instead of {op}."
        )
    return encoded


def _decode_windows(rows: Example, window_of: WindowOf, height: int, width: int) -> tf.Tensor:
    """Return uint8[n, height, width, 3]: a window of each image, resized.

    Args:
        rows: `encoded`, and what `window_of` needs.
        window_of: Says which.
        height: Of the result.
        width: Of the result.
    """

    def resized(image: tf.Tensor) -> tf.Tensor:
        # No rounding needed before the cast, which cuts: values are 0 to 255.
        return tf.cast(tf.image.resize(image, [height, width]) + 0.5, tf.uint8)

    def decode_jpeg(row: Example) -> tf.Tensor:
        image_size = tf.io.extract_jpeg_shape(row["encoded"])[:2]
        window = window_of(image_size, row)
        return resized(tf.image.decode_and_crop_jpeg(row["encoded"], window, channels=3))

    def decode_other(row: Example) -> tf.Tensor:
        image = _decode_any(row["encoded"], 3)
        top, left, window_height, window_width = tf.unstack(window_of(tf.shape(image)[:2], row))
        return resized(image[top : top + window_height, left : left + window_width])

    # A loop: in a graph with a copy for each row all decoded images are in memory at a time, which
    # costs a sixth more CPU an image.
    return tf.map_fn(
        lambda row: tf.cond(
            tf.io.is_jpeg(row["encoded"]), lambda: decode_jpeg(row), lambda: decode_other(row)
        ),
        rows,
        fn_output_signature=tf.TensorSpec([height, width, 3], tf.uint8),
    )


def _decode_any(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    """Return uint8[h, w, channels]; of an animation the first frame."""
    image = tf.io.decode_image(encoded, channels, expand_animations=False)
    return tf.ensure_shape(image, [None, None, channels])

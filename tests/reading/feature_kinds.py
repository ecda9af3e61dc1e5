# SPDX-License-Identifier: Apache-2.0
"""Every kind of feature that TFDS has, with examples, for a test that goes over all of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

f = tfds.features
MakeExample = Callable[[np.random.Generator, int], Any]


def ints(low: int, high: int, *shape: int, dtype: Any = np.int64) -> MakeExample:
    return lambda random, number: random.integers(low, high, shape, dtype)


def floats(*shape: int, dtype: Any = np.float32) -> MakeExample:
    return lambda random, number: random.normal(size=shape).astype(dtype)


def images(height: int, width: int, channels: int, dtype: Any = np.uint8) -> MakeExample:
    return ints(0, np.iinfo(dtype).max, height, width, channels, dtype=dtype)


def any_size_images(channels: int) -> MakeExample:
    return lambda random, number: images(3 + number % 3, 4 + number % 2, channels)(random, number)


def many(make: MakeExample) -> MakeExample:
    """Return lists of 0, 1, 2 … things."""
    return lambda random, number: [make(random, number + i) for i in range(number % 4)]


def box(random: np.random.Generator, number: int) -> Any:
    y, x = random.uniform(0, 0.4, 2)
    return f.BBox(y, x, y + 0.5, x + 0.25)


# name → (feature, maker of an example). All of one fixed shape:
FIXED: dict[str, tuple[Any, MakeExample]] = {
    "scalar": (f.Scalar(np.int32), ints(-9, 9, dtype=np.int32)),
    "int8": (np.int8, ints(-128, 127, dtype=np.int8)),
    "uint64": (np.uint64, lambda random, number: np.uint64(2**40 + number)),
    "float64": (np.float64, lambda random, number: number / 4),
    "float16": (f.Tensor(shape=(2,), dtype=np.float16), floats(2, dtype=np.float16)),
    "bool": (np.bool_, lambda random, number: number % 2 == 1),
    "tensor": (f.Tensor(shape=(2, 3), dtype=np.int8), ints(-9, 9, 2, 3, dtype=np.int8)),
    "tensor_bytes": (
        f.Tensor(shape=(2, 2), dtype=np.float64, encoding="bytes"),
        floats(2, 2, dtype=np.float64),
    ),
    "tensor_zlib": (f.Tensor(shape=(5,), dtype=np.int64, encoding="zlib"), ints(0, 2**40, 5)),
    "tensor_zlib_bool": (
        f.Tensor(shape=(5,), dtype=np.bool_, encoding="zlib"),
        lambda random, number: random.integers(0, 2, 5).astype(bool),
    ),
    "png_1": (f.Image(shape=(3, 4, 1)), images(3, 4, 1)),
    "png_3": (f.Image(shape=(3, 4, 3), encoding_format="png"), images(3, 4, 3)),
    "png_4": (f.Image(shape=(3, 4, 4)), images(3, 4, 4)),
    "png_16_bits": (f.Image(shape=(3, 4, 1), dtype=np.uint16), images(3, 4, 1, np.uint16)),
    "png_float": (f.Image(shape=(3, 4, 1), dtype=np.float32), floats(3, 4, 1)),
    "jpeg": (f.Image(shape=(16, 16, 3), encoding_format="jpeg"), images(16, 16, 3)),
    "jpeg_1": (f.Image(shape=(16, 8, 1), encoding_format="jpeg"), images(16, 8, 1)),
    "labeled_image": (f.LabeledImage(shape=(3, 4, 1), labels=5), images(3, 4, 1)),
    "box": (f.BBoxFeature(), box),
    "label": (f.ClassLabel(num_classes=5), ints(0, 5)),
    "audio": (f.Audio(shape=(7,)), ints(-9, 9, 7)),
    "sequence": (f.Sequence(np.int64, length=3), ints(0, 9, 3)),
    "sequence_boxes": (
        f.Sequence(f.BBoxFeature(), length=2),
        lambda random, number: [box(random, number) for _ in range(2)],
    ),
    "sequence_images": (
        f.Sequence(f.Image(shape=(3, 4, 1)), length=2),
        lambda random, number: list(images(2, 3, 4)(random, number)[..., None]),
    ),
    "sequence_zlib": (
        f.Sequence(f.Tensor(shape=(2,), dtype=np.int32, encoding="zlib"), length=2),
        lambda random, number: list(random.integers(0, 9, (2, 2), np.int32)),
    ),
    "video": (f.Video(shape=(2, 3, 4, 3)), ints(0, 255, 2, 3, 4, 3, dtype=np.uint8)),
    "nested": (
        {"a": {"b": np.float32}, "c": np.int64},
        lambda random, number: {
            "a": {"b": np.float32(number)},
            "c": number,
        },
    ),
    "optional": (
        f.Tensor(shape=(), dtype=np.int32, optional=True),
        lambda random, number: None if number % 2 else np.int32(number),
    ),
}
STRINGS: dict[str, tuple[Any, MakeExample]] = {
    "text": (f.Text(), lambda random, number: "naïve " * number),
    "string": (np.str_, lambda random, number: f"s{number}"),
    "string_tensor": (
        f.Tensor(shape=(2,), dtype=np.str_),
        lambda random, number: np.array([b"a" * number, b"b"], object),
    ),
    "translation": (
        f.Translation(["de", "en"]),
        lambda random, number: {"de": f"eins {number}", "en": f"one {number}"},
    ),
}
VARIABLE: dict[str, tuple[Any, MakeExample]] = {
    "any_image": (f.Image(), any_size_images(3)),
    "any_jpeg": (f.Image(shape=(None, None, 1), encoding_format="jpeg"), any_size_images(1)),
    "any_width": (
        f.Image(shape=(3, None, 1)),
        lambda random, number: images(3, 4 + number % 2, 1)(random, number),
    ),
    "any_audio": (
        f.Audio(dtype=np.int32),
        lambda random, number: random.integers(0, 9, number, np.int32),
    ),
    "any_tensor": (
        f.Tensor(shape=(None, 3), dtype=np.float32),
        lambda random, number: random.normal(size=(number, 3)).astype(np.float32),
    ),
    "any_last": (
        f.Tensor(shape=(2, None), dtype=np.int64),
        lambda random, number: random.integers(0, 9, (2, number + 1)),
    ),
    "any_sizes": (
        f.Tensor(shape=(None, None, 2), dtype=np.int16, encoding="zlib"),
        lambda random, number: random.integers(0, 9, (number % 3, number % 2 + 1, 2), np.int16),
    ),
    "numbers": (f.Sequence(np.int64), many(ints(0, 9))),
    "flags": (f.Sequence(np.bool_), many(lambda random, number: number % 2 == 0)),
    "texts": (f.Sequence(f.Text()), many(lambda random, number: f"text {number}")),
    "labels": (f.Sequence(f.ClassLabel(num_classes=5)), many(ints(0, 5))),
    "tensors": (
        f.Sequence(f.Tensor(shape=(2, 3), dtype=np.int32)),
        many(ints(0, 9, 2, 3, dtype=np.int32)),
    ),
    "zlib_tensors": (
        f.Sequence(f.Tensor(shape=(2,), dtype=np.int32, encoding="zlib")),
        many(ints(0, 9, 2, dtype=np.int32)),
    ),
    "images": (f.Sequence(f.Image(shape=(3, 4, 1))), many(images(3, 4, 1))),
    "any_video": (
        f.Video(shape=(None, 3, 4, 3)),
        lambda random, number: random.integers(0, 255, (number + 1, 3, 4, 3), np.uint8),
    ),
    "objects": (
        f.Sequence({"box": f.BBoxFeature(), "label": f.ClassLabel(num_classes=3)}),
        many(lambda random, number: {"box": box(random, number), "label": number % 3}),
    ),
    "translations": (
        f.TranslationVariableLanguages(["de", "en", "fr"]),
        lambda random, number: {"de": [f"eins {i}" for i in range(number % 3)], "en": "one"},
    ),
    "ragged": (f.Sequence(f.Sequence(np.int64)), many(many(ints(0, 9)))),
    "ragged_tensors": (
        f.Sequence(f.Sequence(f.Tensor(shape=(2,), dtype=np.float32))),
        many(many(floats(2))),
    ),
    "ragged_texts": (
        f.Sequence({"words": f.Sequence(f.Text())}),
        many(lambda random, number: {"words": ["word"] * (number % 3)}),
    ),
    "ragged_3": (
        f.Sequence(f.Sequence(f.Sequence(np.int32))),
        many(many(many(ints(0, 9, dtype=np.int32)))),
    ),
    "videos": (
        f.Sequence(f.Video(shape=(None, 3, 4, 1))),
        many(lambda random, number: random.integers(0, 255, (number + 1, 3, 4, 1), np.uint8)),
    ),
    "dataset": (
        f.Dataset({"action": np.int64, "view": f.Image(shape=(3, 4, 1))}),
        many(lambda random, number: {"action": number, "view": images(3, 4, 1)(random, number)}),
    ),
}

# SPDX-License-Identifier: Apache-2.0
"""Random examples of any TFDS features, in the form that TFDS encodes."""

import io
import wave
from typing import Any

import numpy as np
import PIL.Image
import tensorflow as tf
import tensorflow_datasets as tfds

f = tfds.features

LARGEST = 2**31 - 1
"""No integer is larger, and numbers of 64 bits are values of 32, as which devices hold them."""

WORDS = ("a", "naïve", "图像", "two words", "x/y", "it's", "")


def random_example(feature: tfds.features.FeatureConnector, number: int) -> Any:
    """Return the example of a number: a value that `feature.encode_example` takes.

    Sizes that the feature leaves open are small and differ from example to example. In one example
    all elements of a sequence have the same size, since TFDS stacks them.
    """
    return _RandomExample(number).make(feature)


def name_labels(feature: tfds.features.FeatureConnector) -> None:
    """Give names to labels without any, which builders find in their downloads."""
    if isinstance(feature, f.FeaturesDict):
        for part in feature.values():
            name_labels(part)
    elif isinstance(feature, f.Sequence):
        name_labels(feature.feature)
    elif isinstance(feature, f.ClassLabel) and feature.num_classes is None:
        feature.names = ["ant", "bee", "cat"]


class _RandomExample:
    """One example; remembers the sizes that it drew."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._random = np.random.default_rng(number)
        self._sizes: dict[tuple[int, int], int] = {}

    def make(self, feature: Any) -> Any:
        match feature:
            case f.FeaturesDict():  # Translation is one
                return {name: self.make(part) for name, part in feature.items()}
            case f.TranslationVariableLanguages():  # without any translation, TFDS fails
                languages = (feature.languages or ["de", "en"])[: self._random.integers(1, 3)]
                return {language: [self._word(), self._word()] for language in languages}
            case f.Sequence():  # Video and Dataset are some
                return [self.make(feature.feature) for _ in range(self._length(feature))]
            case f.Image():
                return self._image(feature)
            case f.BBoxFeature():
                low, high = self._random.uniform(0, 0.5, 2), self._random.uniform(0.5, 1, 2)
                return f.BBox(*low, *high)
            case f.ClassLabel():
                return self._random.integers(-1, feature.num_classes)  # -1: no label
            case f.Audio() if feature.to_json_content().lazy_decode:
                return _wave_file(self._numbers((5,), np.dtype(np.int16)))
            case f.Text() if feature.encoder:
                return self._word()
            case f.Tensor():
                return self._tensor(feature)
        raise NotImplementedError(f"There are no random examples of {type(feature).__name__}.")

    def _length(self, feature: Any) -> int:
        infos = tf.nest.flatten(feature.get_serialized_info())
        length = infos[0].shape[0] if infos else 0
        return int(self._random.integers(0, 4)) if length is None else length

    def _shape(self, feature: Any) -> tuple[int, ...]:
        for dim, size in enumerate(feature.shape):
            drawn = self._random.integers(1, 5) if size is None else size
            self._sizes.setdefault((id(feature), dim), int(drawn))
        return tuple(self._sizes[id(feature), dim] for dim in range(len(feature.shape)))

    def _image(self, feature: Any) -> Any:
        *sizes, channels = self._shape(feature)
        if not feature.shape[-1]:
            channels = 3  # any number, found in the file
        values = self._numbers((*sizes, channels), np.dtype(feature.np_dtype))
        return values if values.ndim == 3 else _gif_file(values)

    def _tensor(self, feature: Any) -> Any:
        if feature.get_tensor_info().optional and self._number % 2:
            return None
        shape, dtype = self._shape(feature), np.dtype(feature.np_dtype)
        if dtype.kind not in "OSU":
            return self._numbers(shape, dtype)
        if shape == ():
            return self._word()
        return np.array([self._word() for _ in range(np.prod(shape))], object).reshape(shape)

    def _word(self) -> str:
        return WORDS[self._random.integers(len(WORDS))]

    def _numbers(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray[Any, Any]:
        if dtype.kind == "b":
            return self._random.integers(0, 2, shape).astype(dtype)
        if dtype.kind in "iu":
            low, high = max(np.iinfo(dtype).min, -LARGEST), min(np.iinfo(dtype).max, LARGEST)
            return np.asarray(self._random.integers(low, high, shape, endpoint=True), dtype)
        return np.asarray(self._random.normal(size=shape), np.float32).astype(dtype)


def _wave_file(samples: np.ndarray[Any, Any]) -> io.BytesIO:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(samples.itemsize)
        writer.setframerate(8000)
        writer.writeframes(samples.tobytes())
    return io.BytesIO(file.getvalue())


def _gif_file(frames: np.ndarray[Any, Any]) -> bytes:
    """Return a GIF, which TensorFlow decodes, but does not encode."""
    file = io.BytesIO()
    first, *others = map(PIL.Image.fromarray, frames)
    first.save(file, format="GIF", save_all=True, append_images=others)
    return file.getvalue()

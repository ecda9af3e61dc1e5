# SPDX-License-Identifier: Apache-2.0
"""Small datasets with the names and features of those that configs use."""

import io
import os
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import PIL.Image
import tensorflow_datasets as tfds

COUNT = 12
WORDS = "the naïve reader of small pages, "


class _Made(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Writes `COUNT` examples a split."""

    SPLITS: ClassVar[tuple[str, ...]] = ("train", "test")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self, features=self.make_features(), disable_shuffling=True
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {split: self._generate_examples() for split in self.SPLITS}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number in range(COUNT):
            yield number, self.make_example(number)

    def make_features(self) -> tfds.features.FeaturesDict:
        raise NotImplementedError

    def make_example(self, number: int) -> dict[str, Any]:
        raise NotImplementedError


def make_image(number: int, height: int, width: int, channels: int = 3) -> np.ndarray:
    """Return smooth uint8[height, width, channels]; each `number` gives another image."""
    rows, columns = np.mgrid[:height, :width]
    planes = [
        100 + 100 * np.sin((rows * c + columns) / 40 + number) for c in range(1, channels + 1)
    ]
    return np.stack(planes, -1).astype(np.uint8)


class Imagenet2012(_Made, skip_registration=True):
    """JPEGs of several sizes and one PNG, as in ImageNet."""

    VERSION = tfds.core.Version("5.1.0")
    SPLITS = ("train", "validation")

    def make_features(self) -> tfds.features.FeaturesDict:
        labels = tfds.core.tfds_path("datasets/imagenet2012/labels.txt")
        return tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(encoding_format="jpeg"),
                "label": tfds.features.ClassLabel(names_file=os.fspath(labels)),
                "file_name": tfds.features.Text(),
            }
        )

    def make_example(self, number: int) -> dict[str, Any]:
        file = io.BytesIO()
        image = PIL.Image.fromarray(make_image(number, 300 + 10 * number, 400 - 20 * number))
        image.save(file, "png" if number == 5 else "jpeg")
        file.seek(0)
        return {"image": file, "label": 80 * number, "file_name": f"n{number:08}_1.JPEG"}


class Cifar10(_Made, skip_registration=True):
    VERSION = tfds.core.Version("3.0.2")

    def make_features(self) -> tfds.features.FeaturesDict:
        return tfds.features.FeaturesDict(
            {
                "id": tfds.features.Text(),
                "image": tfds.features.Image(shape=(32, 32, 3)),
                "label": tfds.features.ClassLabel(num_classes=10),
            }
        )

    def make_example(self, number: int) -> dict[str, Any]:
        image = make_image(number, 32, 32)
        return {"id": f"train_{number:05}", "image": image, "label": number % 10}


class MNIST(_Made, skip_registration=True):
    VERSION = tfds.core.Version("3.0.1")

    def make_features(self) -> tfds.features.FeaturesDict:
        return tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(28, 28, 1)),
                "label": tfds.features.ClassLabel(num_classes=10),
            }
        )

    def make_example(self, number: int) -> dict[str, Any]:
        return {"image": make_image(number, 28, 28, 1), "label": number % 10}


class C4(_Made, skip_registration=True):
    VERSION = tfds.core.Version("3.1.0")
    BUILDER_CONFIGS: ClassVar[list[Any]] = [tfds.core.BuilderConfig(name="en")]
    SPLITS = ("train", "validation")

    def make_features(self) -> tfds.features.FeaturesDict:
        names = ("content-length", "content-type", "text", "timestamp", "url")
        return tfds.features.FeaturesDict({name: tfds.features.Text() for name in names})

    def make_example(self, number: int) -> dict[str, Any]:
        return {
            "content-length": "9",
            "content-type": "text/plain",
            "text": WORDS * (5 * number),
            "timestamp": "2019-04-25T12:57:54Z",
            "url": f"https://example.com/{number}",
        }


BUILDERS = {"imagenet": Imagenet2012, "cifar10": Cifar10, "mnist": MNIST, "c4": C4}
"""Name of a config → the builder of its dataset."""

# SPDX-License-Identifier: Apache-2.0
"""The datasets that bench.py and bench_far.py read; written once, as TFRecord or ArrayRecord."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

SEQUENCE = 512
PHOTO_SHAPE = (375, 500, 3)
CROP = 224


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A dataset and how to batch it.

    Attributes:
        name: A key of `WORKLOADS`.
        num_examples: Examples of the dataset.
        batch_size: Rows of a batch.
        num_files: Files that hold the examples.
        seed: Seed of the random examples.
    """

    name: str
    num_examples: int
    batch_size: int
    num_files: int = 8
    seed: int = 0


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(name="tabular", num_examples=200_000, batch_size=256),
        Workload(name="tokens", num_examples=40_000, batch_size=256),
        Workload(name="records_100kb", num_examples=4_000, batch_size=64),
        Workload(name="small_png", num_examples=60_000, batch_size=256),
        Workload(name="jpeg", num_examples=3_000, batch_size=64),
    )
}


def quick(workload: Workload) -> Workload:
    """Return the same workload with four batches of examples."""
    return dataclasses.replace(workload, num_examples=4 * workload.batch_size)


def prepare(workload: Workload, data_dir: str, file_format: str) -> str:
    """Write the dataset if it is missing; return its versioned folder.

    Args:
        workload: What to write.
        data_dir: Folder for all datasets of benchmarks.
        file_format: TFDS's name of the format: "tfrecord" or "array_record".
    """
    folder = os.path.join(data_dir, f"{file_format}-{workload.num_examples}")
    builder = _BUILDERS[workload.name](workload=workload, data_dir=folder, file_format=file_format)
    config = tfds.download.DownloadConfig(num_shards=workload.num_files)
    builder.download_and_prepare(download_config=config)
    return os.fspath(builder.data_path)


class _Builder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Writes the examples of a workload."""

    VERSION = tfds.core.Version("1.0.0")
    FEATURES: ClassVar[dict[str, Any]]

    def __init__(self, *, workload: Workload, **kwargs: Any) -> None:
        self._workload = workload
        super().__init__(**kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(self.FEATURES)
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        random = np.random.default_rng(self._workload.seed)
        return enumerate(self.make_examples(random, self._workload.num_examples))

    def make_examples(self, random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
        """Yield `count` examples."""
        raise NotImplementedError


class Tabular(_Builder, skip_registration=True):
    """Rows of numbers."""

    FEATURES: ClassVar[dict[str, Any]] = {
        "row": tfds.features.Tensor(shape=(64,), dtype=np.float32),
        "label": np.int64,
    }

    def make_examples(self, random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
        """See base class."""
        for number in range(count):
            yield {"row": random.normal(size=64).astype(np.float32), "label": number % 10}


class Tokens(_Builder, skip_registration=True):
    """Sequences of random tokens from a vocabulary of 32,000."""

    FEATURES: ClassVar[dict[str, Any]] = {
        "tokens": tfds.features.Tensor(shape=(SEQUENCE,), dtype=np.int32)
    }

    def make_examples(self, random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
        """See base class."""
        for _ in range(count):
            yield {"tokens": random.integers(0, 32_000, SEQUENCE, np.int32)}


class Records100KB(_Builder, skip_registration=True):
    """Long rows of numbers."""

    FEATURES: ClassVar[dict[str, Any]] = {
        "row": tfds.features.Tensor(shape=(25_000,), dtype=np.float32)
    }

    def make_examples(self, random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
        """See base class."""
        for _ in range(count):
            yield {"row": random.random(25_000, np.float32)}


class SmallPng(_Builder, skip_registration=True):
    """Handwritten digits, scaled to 28 × 28 and shifted."""

    FEATURES: ClassVar[dict[str, Any]] = {
        "image": tfds.features.Image(shape=(28, 28, 1)),
        "label": tfds.features.ClassLabel(num_classes=10),
    }

    def make_examples(self, random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
        """See base class."""
        import sklearn.datasets

        digits = sklearn.datasets.load_digits()
        for number in range(count):
            index = number % len(digits.images)
            large = np.kron(digits.images[index] * 15, np.ones((3, 3))).astype(np.uint8)
            image = np.zeros((28, 28, 1), np.uint8)
            top, left = random.integers(0, 5, 2)
            image[top : top + 24, left : left + 24, 0] = large
            yield {"image": image, "label": int(digits.target[index])}


class Jpeg(_Builder, skip_registration=True):
    """Random crops of the photographs in scikit-image and scikit-learn."""

    FEATURES: ClassVar[dict[str, Any]] = {
        "image": tfds.features.Image(shape=PHOTO_SHAPE, encoding_format="jpeg"),
        "label": np.int64,
    }

    def make_examples(self, random: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
        """See base class."""
        import PIL.Image
        import skimage.data
        import sklearn.datasets

        photos = [
            make()
            for make in (
                skimage.data.astronaut,
                skimage.data.chelsea,
                skimage.data.coffee,
                skimage.data.rocket,
            )
        ]
        photos += sklearn.datasets.load_sample_images().images
        height, width, _ = PHOTO_SHAPE
        for number in range(count):
            photo = PIL.Image.fromarray(photos[number % len(photos)])
            # 0.6 to 1.0 times the largest window of that shape, anywhere in the photograph.
            scale = min(photo.width / width, photo.height / height) * random.uniform(0.6, 1.0)
            left = random.uniform(0, photo.width - scale * width)
            top = random.uniform(0, photo.height - scale * height)
            box = (left, top, left + scale * width, top + scale * height)
            window = photo.resize((width, height), PIL.Image.Resampling.BICUBIC, box)
            yield {"image": np.asarray(window), "label": number % 10}


_BUILDERS = {
    "tabular": Tabular,
    "tokens": Tokens,
    "records_100kb": Records100KB,
    "small_png": SmallPng,
    "jpeg": Jpeg,
}

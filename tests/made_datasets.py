# SPDX-License-Identifier: Apache-2.0
"""Small TFDS datasets with known content, for tests."""

import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

import tfjax_batches as tjb

LABELS = ("ant", "bee", "cat")


class Numbers(tfds.core.GeneratorBasedBuilder):
    """Example i holds values that follow from i; two splits of one size."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, *, num_examples: int = 23, **kwargs: Any) -> None:
        self._num_examples = num_examples
        super().__init__(**kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {
                    "number": np.int64,
                    "vector": tfds.features.Tensor(shape=(3,), dtype=np.float32),
                    "label": tfds.features.ClassLabel(names=list(LABELS)),
                    "nested": {
                        "even": np.bool_,
                        "image": tfds.features.Image(shape=(4, 5, 3)),
                    },
                }
            ),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples(0), "test": self._generate_examples(10_000)}

    def _generate_examples(self, first: int) -> Iterator[tuple[int, dict[str, Any]]]:
        for index in range(self._num_examples):
            yield index, number_example(first + index)


def number_example(number: int) -> dict[str, Any]:
    """Return the example of a number, as NumPy values in the dtypes of the features."""
    return {
        "number": np.int64(number),
        "vector": np.array([number, number / 2, -number], np.float32),
        "label": np.int64(number % 3),
        "nested": {
            "even": np.bool_(number % 2 == 0),
            "image": (np.arange(60) + number).astype(np.uint8).reshape(4, 5, 3),
        },
    }


def make_numbers(data_dir: str | Path, num_examples: int, num_files: int = 1) -> str:
    """Prepare `Numbers` in `data_dir` and return its versioned folder."""
    builder = Numbers(num_examples=num_examples, data_dir=os.fspath(data_dir))
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=num_files))
    return os.fspath(builder.data_path)


class Things(tfds.core.GeneratorBasedBuilder):
    """Strings, features of any size, and integers beyond 32 bits."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, *, num_examples: int = 11, **kwargs: Any) -> None:
        self._num_examples = num_examples
        super().__init__(**kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        f = tfds.features
        return tfds.core.DatasetInfo(
            builder=self,
            features=f.FeaturesDict(
                {
                    "number": np.int64,
                    "big": np.int64,
                    "text": f.Text(),
                    "words": f.Sequence(f.Text()),
                    "objects": f.Sequence(
                        {"bbox": f.BBoxFeature(), "label": f.ClassLabel(names=list(LABELS))}
                    ),
                    "paths": f.Sequence(f.Sequence(np.int64)),
                    "photo": f.Image(),
                }
            ),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for index in range(self._num_examples):
            yield index, thing_example(index)


def thing_example(number: int) -> dict[str, Any]:
    """Return the example of a number, as it is given to TFDS."""
    edge = (number + 1) / 32
    return {
        "number": number,
        "big": 2**40 + number,
        "text": "naïve " * number,
        "words": [f"word {i}" for i in range(number % 4)],
        "objects": [
            {"bbox": tfds.features.BBox(0.0, i / 8, edge, 1.0), "label": (number + i) % 3}
            for i in range((number + 2) % 5)
        ],
        "paths": [list(range(i)) for i in range(number % 3)],
        "photo": np.full((2 + number % 3, 3, 3), number, np.uint8),
    }


def make_things(data_dir: str | Path, num_examples: int = 11) -> str:
    """Prepare `Things` in `data_dir` and return its versioned folder."""
    builder = Things(num_examples=num_examples, data_dir=os.fspath(data_dir))
    builder.download_and_prepare()
    return os.fspath(builder.data_path)


class Slashes(tfds.core.GeneratorBasedBuilder):
    """COCO's names, one with a slash but nothing above it, and one that starts with a slash."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        f = tfds.features
        label = f.ClassLabel(names=list(LABELS))
        return tfds.core.DatasetInfo(
            builder=self,
            features=f.FeaturesDict(
                {
                    "image": f.Image(shape=(4, 5, 3)),
                    "image/filename": f.Text(),
                    "image/id": np.int64,
                    "objects": f.Sequence({"bbox": f.BBoxFeature(), "label": label}),
                    "observation/image": f.Image(shape=(2, 3, 3)),
                    "/a": np.float32,
                    "scene/label": label,
                }
            ),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for index in range(8):
            yield index, slash_example(index)


def slash_example(number: int) -> dict[str, Any]:
    """Return the example of a number, as it is given to TFDS."""
    box = tfds.features.BBox(0.0, number / 8, 0.5, 1.0)
    return {
        "image": np.full((4, 5, 3), number, np.uint8),
        "image/filename": f"{number}.png",
        "image/id": number + 100,
        "objects": [{"bbox": box, "label": label} for label in range(number % 3)],
        "observation/image": (np.arange(18) + number).astype(np.uint8).reshape(2, 3, 3),
        "/a": number / 2,
        "scene/label": number % 3,
    }


def make_slashes(data_dir: str | Path) -> str:
    """Prepare `Slashes` with 8 examples in `data_dir` and return its versioned folder."""
    builder = Slashes(data_dir=os.fspath(data_dir))
    builder.download_and_prepare()
    return os.fspath(builder.data_path)


def with_reader(loader: tjb.BatchLoader, reader: Any) -> tjb.BatchLoader:
    """Return the loader that reads through another reader."""
    pipeline = dataclasses.replace(loader.pipeline, readers=(reader,))
    return dataclasses.replace(loader, pipeline=pipeline)


class SlowReader:
    """Reads as `reader` does, on slow storage.

    Attributes:
        reads: Calls so far.
    """

    def __init__(self, reader: Any, seconds: float) -> None:
        self.reads = 0
        self._reader = reader
        self._seconds = seconds

    def read(self, examples: np.ndarray) -> Any:
        self.reads += 1
        time.sleep(self._seconds)
        return self._reader.read(examples)

    def open(self) -> None:
        self._reader.open()

    def reads_ranges(self) -> bool:
        return False

    def mean_record_bytes(self) -> float:
        return 2**18  # so large that each record is a group of its own

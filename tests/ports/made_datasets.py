# SPDX-License-Identifier: Apache-2.0
"""Small datasets with the names, versions and features of real ones, whose labels can be learnt."""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import PIL.Image
import tensorflow_datasets as tfds


def make_dataset(name: str, data_dir: str, **counts: int) -> None:
    """Prepare a dataset under the name of a real one, in two files a split.

    Args:
        name: "mnist", "imagenet2012" or "oxford_iiit_pet".
        data_dir: The TFDS folder.
        **counts: Examples of each split.
    """
    real = tfds.builder(name, data_dir=data_dir)
    tfds.dataset_builders.store_as_tfds_dataset(
        name,
        real.version,
        real.info.features,
        {split: list(_examples(name, split, count)) for split, count in counts.items()},
        data_dir=data_dir,
        download_config=tfds.download.DownloadConfig(num_shards=2),
    )


def _examples(name: str, split: str, count: int) -> Iterator[tuple[int, dict[str, Any]]]:
    rng = np.random.default_rng(len(split))
    for number in range(count):
        yield number, _MAKERS[name](rng, number)


def _digit(rng: np.random.Generator, number: int) -> dict[str, Any]:
    label = number % 10
    image = rng.integers(0, 100, (28, 28, 1), np.uint8)
    image[2 * label + 4 : 2 * label + 6] = 255  # each digit is a line at its own height
    return {"image": image, "label": label}


def _photograph(rng: np.random.Generator, number: int) -> dict[str, Any]:
    kind = number % 10
    image = _jpeg(_coloured(rng, kind, 10))
    return {"image": image, "label": 100 * kind, "file_name": f"n{number:08}_{kind}.JPEG"}


def _pet(rng: np.random.Generator, number: int) -> dict[str, Any]:
    kind = number % 6
    image = _coloured(rng, kind, 6)
    height, width, _ = image.shape
    return {
        "image": _jpeg(image),
        "label": 6 * kind,
        "species": kind % 2,
        "file_name": f"pet_{number}.jpg",
        "segmentation_mask": rng.integers(1, 4, (height, width, 1), np.uint8),
        "head_bbox": tfds.features.BBox(0.1, 0.2, 0.5, 0.6),
    }


def _coloured(rng: np.random.Generator, kind: int, kinds: int) -> np.ndarray:
    """Return a noisy image of any size, whose colour tells its kind: uint8[h, w, 3]."""
    angle = 2 * np.pi * kind / kinds
    colour = 128 + 90 * np.cos(angle + np.array([0, 2, 4]) * np.pi / 3)
    height, width = rng.integers(80, 140, 2)
    noise = rng.normal(0, 20, (height, width, 3))
    return (colour + noise).clip(0, 255).astype(np.uint8)


def _jpeg(image: np.ndarray) -> io.BytesIO:
    file = io.BytesIO()
    PIL.Image.fromarray(image).save(file, "jpeg")
    file.seek(0)
    return file


_MAKERS = {"mnist": _digit, "imagenet2012": _photograph, "oxford_iiit_pet": _pet}

# SPDX-License-Identifier: Apache-2.0
"""Known records, in TFRecord files and in memory, and splits over them, without TFDS."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.split import FileRange, Split


def write_records(path: str | Path, records: Sequence[bytes]) -> None:
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for record in records:
            writer.write(record)


def split_of(files: dict[str, int]) -> Split:
    """Return the split of whole files, path → records."""
    ranges = tuple(
        FileRange(path=path, skip=0, take=count, records_in_file=count)
        for path, count in files.items()
    )
    features = tfds.features.FeaturesDict({})
    return Split(name="made", split="train", resolved=("train",), ranges=ranges, features=features)


def write_split(folder: str | Path, num_files: int, per_file: int, prefix: str = "r") -> Split:
    """Write files whose records say file and number, as TFDS names files."""
    files = {}
    for file in range(num_files):
        path = os.path.join(os.fspath(folder), f"made-train.tfrecord-{file:05d}-of-{num_files:05d}")
        write_records(path, [f"{prefix}{file}.{number}".encode() for number in range(per_file)])
        files[path] = per_file
    return split_of(files)


class Records:
    """Reads from a list of records."""

    def __init__(self, records: list[bytes]) -> None:
        self._records = records

    def open(self) -> None:
        pass

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        data = np.empty(len(examples), object)
        data[:] = [self._records[example] for example in examples]
        return data

    def reads_ranges(self) -> bool:
        return False

    def mean_record_bytes(self) -> float:
        return 1.0

    def describe(self, example: int) -> str:
        return f"record {example}"

    def index_location(self) -> str:
        return "memory"

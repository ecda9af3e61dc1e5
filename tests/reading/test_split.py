# SPDX-License-Identifier: Apache-2.0
"""Split expressions become exact records, or one clear error."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import SplitError
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.split import Split, open_split
from tfjax_batches.reading.tfrecord.reader import TFRecordReader


def numbers_of(found: Split) -> list[int]:
    """Read all examples of a split by index and return their numbers."""
    records = TFRecordReader(found, ReaderOptions()).read(np.arange(found.num_examples))
    examples = [tf.train.Example.FromString(record) for record in records]
    return [example.features.feature["number"].int64_list.value[0] for example in examples]


def tfds_numbers(folder: str, split: str) -> list[int]:
    dataset = tfds.builder_from_directory(folder).as_dataset(split=split)
    return [int(example["number"]) for example in dataset.as_numpy_iterator()]


@pytest.mark.parametrize(
    "split",
    ["train", "test[3:20]", "train[:67%]", "train[67%:]", "train[20:]+test[:2]", "train[7:8]"],
)
def test_open_split_any_split_holds_the_examples_of_tfds(numbers_folder: str, split: str) -> None:
    found = open_split(open_builder(numbers_folder, None), split)
    assert numbers_of(found) == tfds_numbers(numbers_folder, split)


def test_open_split_percent_splits_are_a_partition(numbers_folder: str) -> None:
    builder = open_builder(numbers_folder, None)
    for percent in range(5, 96):  # below, 23 examples leave one part empty
        parts = [f"train[:{percent}%]", f"train[{percent}%:]"]
        found = [number for part in parts for number in numbers_of(open_split(builder, part))]
        assert found == list(range(23)), percent


def test_open_split_each_misspelt_part_of_a_split_is_answered(numbers_folder: str) -> None:
    builder = open_builder(numbers_folder, None)
    with pytest.raises(SplitError, match=r"Did you mean 'test'\?"):
        open_split(builder, "train[:50%]+tset")


@pytest.mark.parametrize(
    ("split", "resolved"),
    [
        ("train", ("train[0:23]",)),
        ("train[:67%]", ("train[0:15]",)),
        ("train[67%:]", ("train[15:23]",)),
        ("train[20:]+test[:2]", ("train[20:23]", "test[0:2]")),
        ("train[-3:]", ("train[20:23]",)),
    ],
)
def test_open_split_resolves_a_split_to_absolute_ranges(
    numbers_folder: str, split: str, resolved: tuple[str, ...]
) -> None:
    assert open_split(open_builder(numbers_folder, None), split).resolved == resolved


def test_locate_gives_file_and_record(numbers_folder: str) -> None:
    found = open_split(open_builder(numbers_folder, None), "train[5:]")
    files, records = found.locate(np.array([0, 2, 3, 17]))
    takes = [file_range.take for file_range in found.ranges]
    assert sum(takes) == found.num_examples == 18
    assert files.tolist() == [0, 0, 1, 2]
    assert records.tolist() == [5, 7, 0, takes[2] - 1]


@pytest.mark.parametrize(
    ("split", "texts"),
    [
        (
            "tran",
            ["'tran' does not exist in numbers/1.0.0 (", "Did you mean 'train'?", "test (23)"],
        ),
        ("train[:", ["'train[:' does not exist in", "train (23)", "'train[:90%]'"]),
        ("train[:0]", ["at least one example", "'train[:0]'", "train (23)"]),
        ("all[:50%]", ["'all' has no parts", "'train[:50%]+test[:50%]'"]),
    ],
)
def test_open_split_split_that_is_none_is_named(
    numbers_folder: str, split: str, texts: list[str]
) -> None:
    with pytest.raises(SplitError) as caught:
        open_split(open_builder(numbers_folder, None), split)
    for text in texts:
        assert text in str(caught.value)

# SPDX-License-Identifier: Apache-2.0
"""Names and splits become exact records, or one clear error."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tests.made_datasets import Numbers
from tfjax_batches.errors import ConfigError, DatasetNotFoundError, SplitError
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.split import Split, open_split
from tfjax_batches.reading.tfrecord.reader import TFRecordReader


def numbers_of(source: Split) -> list[int]:
    """Read all examples of a split by index and return their numbers."""
    records = TFRecordReader(source).read(np.arange(source.num_examples))
    examples = [tf.train.Example.FromString(record) for record in records]
    return [example.features.feature["number"].int64_list.value[0] for example in examples]


def tfds_numbers(folder: str, split: str) -> list[int]:
    dataset = tfds.builder_from_directory(folder).as_dataset(split=split)
    return [int(example["number"]) for example in dataset.as_numpy_iterator()]


@pytest.mark.parametrize(
    "split",
    ["train", "test[3:20]", "train[:67%]", "train[67%:]", "train[20:]+test[:2]", "train[7:8]"],
)
def test_open_source_any_split_holds_the_examples_of_tfds(numbers_folder: str, split: str) -> None:
    source = open_split(open_builder(numbers_folder, None), split)
    assert numbers_of(source) == tfds_numbers(numbers_folder, split)


def test_open_source_percent_splits_are_a_partition(numbers_folder: str) -> None:
    builder = open_builder(numbers_folder, None)
    for percent in range(5, 96):  # below, 23 examples leave one part empty
        parts = [f"train[:{percent}%]", f"train[{percent}%:]"]
        found = [number for part in parts for number in numbers_of(open_split(builder, part))]
        assert found == list(range(23)), percent


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json"])
@pytest.mark.parametrize("text", ["{oops", "", "[]"])
def test_open_builder_of_broken_metadata_names_the_folder(
    numbers_folder: str, tmp_path: Path, name: str, text: str
) -> None:
    folder = tmp_path / "numbers" / "1.0.0"
    shutil.copytree(numbers_folder, folder)
    (folder / name).write_text(text)
    with pytest.raises(DatasetNotFoundError, match=rf"{name}.*{folder} cannot be read"):
        open_builder(str(folder), None)


def test_open_source_each_misspelt_part_of_a_split_is_answered(numbers_folder: str) -> None:
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
def test_open_source_resolves_a_split_to_absolute_ranges(
    numbers_folder: str, split: str, resolved: tuple[str, ...]
) -> None:
    assert open_split(open_builder(numbers_folder, None), split).resolved == resolved


def test_locate_gives_file_and_record(numbers_folder: str) -> None:
    source = open_split(open_builder(numbers_folder, None), "train[5:]")
    files, records = source.locate(np.array([0, 2, 3, 17]))
    takes = [file_range.take for file_range in source.ranges]
    assert sum(takes) == source.num_examples == 18
    assert files.tolist() == [0, 0, 1, 2]
    assert records.tolist() == [5, 7, 0, takes[2] - 1]


def test_open_builder_takes_builder_name_and_folder(numbers_folder: str) -> None:
    data_dir = str(Path(numbers_folder).parents[1])
    for dataset, folder in [
        (numbers_folder, None),
        ("numbers", data_dir),
        ("numbers:1.0.0", data_dir),
        (tfds.builder_from_directory(numbers_folder), None),
    ]:
        source = open_split(open_builder(dataset, folder), "train")
        assert source.name == "numbers/1.0.0"
        assert source.num_examples == 23


@pytest.mark.parametrize(
    ("dataset", "texts"),
    [
        (
            "mnits",
            [
                "'mnits' cannot be built",
                "data_dir=",
                "Did you mean 'mnist'?",
                "versioned folder",
            ],
        ),
        ("mnist:9.9.9", ["'mnist:9.9.9' cannot be built", "only: 3.0.1", "Correct"]),
        ("mnist/nothing", ["'mnist/nothing' cannot be built", "closely match. Correct"]),
        ("cifar10_corrupted/brightnes_1", ["'cifar10_corrupted/brightnes_1'", "brightness_1"]),
        ("digts", ["Did you mean 'digits'?"]),
        ("digits/1.0.0", ["'digits/1.0.0' cannot be built", "name[/config][:version]", "Correct"]),
        ("two words", ["'two words' cannot be built", "name[/config][:version]"]),
        ("/no/such/folder", ["holds dataset_info.json", "'/no/such/folder'", "no such folder"]),
    ],
)
def test_open_builder_unknown_dataset_is_named(
    dataset: str, texts: list[str], tmp_path: Path
) -> None:
    data_dir = None if dataset.startswith("/") else str(tmp_path)
    with pytest.raises(DatasetNotFoundError) as caught:
        open_builder(dataset, data_dir)
    for text in texts:
        assert text in str(caught.value)


def test_open_builder_folder_a_level_too_high_names_the_right_one(numbers_folder: str) -> None:
    with pytest.raises(DatasetNotFoundError, match=rf"too high: give {numbers_folder}\."):
        open_builder(str(Path(numbers_folder).parent), None)


def test_open_builder_a_bare_name_is_a_dataset_beside_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert open_builder("digits", str(tmp_path / "data")).info.name == "digits"


def test_open_builder_builder_and_data_dir_is_refused(numbers_folder: str) -> None:
    with pytest.raises(ConfigError, match=r"data_dir of its own.*data_dir='/x'.*Drop data_dir"):
        open_builder(tfds.builder_from_directory(numbers_folder), "/x")


def test_open_builder_other_type_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a TFDS name, a folder or a DatasetBuilder; got int"):
        open_builder(3, None)  # type: ignore[arg-type]


def test_open_source_unprepared_says_where_it_looked_and_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "cars" / "1.0.0").mkdir(parents=True)
    builder = Numbers(num_examples=3, data_dir=str(tmp_path))
    with pytest.raises(DatasetNotFoundError) as caught:
        open_split(builder, "train")
    message = str(caught.value)
    assert f"looked in {tmp_path}/numbers/1.0.0" in message
    assert f"Datasets found in {tmp_path}: cars." in message
    assert "prepare=True" in message
    assert "download_and_prepare()" in message


@pytest.mark.parametrize(
    ("split", "texts"),
    [
        (
            "tran",
            ["'tran' does not exist in numbers/1.0.0 (", "Did you mean 'train'?", "test (23)"],
        ),
        ("train[:", ["'train[:' does not exist in", "train (23)", "'train[:90%]'"]),
        ("train[:0]", ["at least one example", "'train[:0]'", "train (23)"]),
    ],
)
def test_open_source_split_that_is_none_is_named(
    numbers_folder: str, split: str, texts: list[str]
) -> None:
    with pytest.raises(SplitError) as caught:
        open_split(open_builder(numbers_folder, None), split)
    for text in texts:
        assert text in str(caught.value)

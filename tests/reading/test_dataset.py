# SPDX-License-Identifier: Apache-2.0
"""Names, folders and builders become a TFDS builder, or one clear error."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow_datasets as tfds

from tests.made_datasets import Numbers
from tfjax_batches.errors import ConfigError, DatasetNotFoundError
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.split import open_split


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


def test_open_builder_takes_builder_name_and_folder(numbers_folder: str) -> None:
    data_dir = str(Path(numbers_folder).parents[1])
    for dataset, folder in [
        (numbers_folder, None),
        ("numbers", data_dir),
        ("numbers:1.0.0", data_dir),
        (tfds.builder_from_directory(numbers_folder), None),
    ]:
        found = open_split(open_builder(dataset, folder), "train")
        assert found.name == "numbers/1.0.0"
        assert found.num_examples == 23


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
        ("mnist:9.9.9", ["'mnist:9.9.9' cannot be built", "only: 3.0.1"]),
        ("mnist/nothing", ["'mnist/nothing' cannot be built", "closely match"]),
        ("cifar10_corrupted/brightnes_1", ["'cifar10_corrupted/brightnes_1'", "brightness_1"]),
        ("digts", ["Did you mean 'digits'?"]),
        ("digits/1.0.0", ["'digits/1.0.0' cannot be built", "name[/config][:version]", "Correct"]),
        ("two words", ["'two words' cannot be built", "name[/config][:version]"]),
        (
            "/no/such/folder",
            ["dataset_info.json", "/no/such/folder cannot be read", "<version>"],
        ),
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


def test_open_builder_a_bare_name_is_a_dataset_beside_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert open_builder("digits", str(tmp_path / "data")).info.name == "digits"


def test_open_builder_builder_and_data_dir_is_refused(numbers_folder: str) -> None:
    with pytest.raises(ConfigError, match=r"data_dir of its own.*data_dir='/x'.*Drop data_dir"):
        open_builder(tfds.builder_from_directory(numbers_folder), "/x")


def test_open_split_unprepared_says_where_it_looked_and_what_to_run(tmp_path: Path) -> None:
    builder = Numbers(num_examples=3, data_dir=str(tmp_path))
    with pytest.raises(DatasetNotFoundError) as caught:
        open_split(builder, "train")
    message = str(caught.value)
    assert f"looked in {tmp_path}/numbers/1.0.0" in message
    assert "prepare=True" in message
    assert "download_and_prepare()" in message


def test_open_builder_registers_digits_when_it_is_asked_for() -> None:
    code = (
        "import tensorflow_datasets as tfds\n"
        "from tfjax_batches.reading.dataset import open_builder\n"
        "print('digits' in tfds.list_builders(with_community_datasets=False))\n"
        "print(open_builder('digits:1.0.0', '/nowhere').info.full_name)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["False", "digits/1.0.0"], result.stderr

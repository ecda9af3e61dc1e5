# SPDX-License-Identifier: Apache-2.0
"""Names, folders and builders become a TFDS builder, or one clear error."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import tfjax_batches as tjb
from tests.made_datasets import Numbers, make_numbers
from tests.reading.writing import write_records
from tfjax_batches.errors import ConfigError, DatasetNotFoundError, UnsupportedError
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


def test_open_builder_names_the_versions_that_are_prepared(
    numbers_folder: str, tmp_path: Path
) -> None:
    folder = tmp_path / "unregistered" / "1.0.0"
    shutil.copytree(numbers_folder, folder)
    for dataset, data_dir in [("unregistered:2.0.0", str(tmp_path)), (str(folder.parent), None)]:
        with pytest.raises(DatasetNotFoundError, match=f"readable as dataset=…: {folder}"):
            open_builder(dataset, data_dir)


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


def test_open_builder_writes_out_the_home_folder_of_data_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_numbers(tmp_path / "home" / "data", num_examples=3)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert open_split(open_builder("numbers", "~/data"), "train").num_examples == 3
    assert open_split(open_builder("~/data/numbers/1.0.0", None), "train").num_examples == 3
    tjb.build("digits", data_dir="~/new", prepare=True, global_batch_size=4)
    assert (tmp_path / "home" / "new" / "digits").is_dir()
    assert not (tmp_path / "~").exists()


def test_open_builder_takes_the_address_of_a_file(numbers_folder: str) -> None:
    root = str(Path(numbers_folder).parents[1])
    for dataset, data_dir in [(f"file://{numbers_folder}", None), ("numbers", f"file://{root}")]:
        found = open_split(open_builder(dataset, data_dir), "train")
        # A path of this machine: read through a memory map, and as ArrayRecord files too.
        assert found.ranges[0].path.startswith(numbers_folder)


def write_images(folder: Path) -> None:
    for number in range(6):
        path = folder / "train" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_png(np.full((4, 5, 3), number, np.uint8)).numpy())


def write_translations(folder: Path) -> None:
    folder.mkdir()
    for language in ("en", "de"):
        (folder / f"{language}.train.txt").write_text("one\ntwo\n")


@pytest.mark.parametrize(
    ("write", "make"),
    [
        (write_images, lambda folder: tfds.ImageFolder(folder, shape=(4, 5, 3))),
        (write_translations, tfds.TranslateFolder),
    ],
)
def test_build_of_a_builder_without_record_files_tells_how_to_make_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, make: Any
) -> None:
    write(tmp_path / "files")
    builder = make(str(tmp_path / "files"))
    with pytest.raises(UnsupportedError, match=f"{type(builder).__name__} has none in") as caught:
        tjb.build(builder, global_batch_size=4)
    monkeypatch.chdir(tmp_path)
    command, arguments = re.findall(r"`(.*)`; then pass (.*)\.", str(caught.value))[0]
    exec(command, {"tfds": tfds, "builder": builder})
    given = eval(f"dict({arguments})")
    texts = [
        name
        for name, feature in builder.info.features.items()
        if isinstance(feature, tfds.features.Text)
    ]
    config = tjb.BatchConfig(**given, global_batch_size=4, remainder="pad")
    loader = tjb.build(config, keep_on_host=texts)
    assert loader.num_examples == builder.info.splits["train"].num_examples


def test_open_builder_of_record_files_alone_tells_how_to_write_the_metadata(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "own" / "1.0.0"
    folder.mkdir(parents=True)
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
    example = tf.train.Example(features=tf.train.Features(feature={"number": number}))
    path = folder / "own-train.tfrecord-00000-of-00001"
    write_records(path, [example.SerializeToString()] * 3)
    with pytest.raises(
        DatasetNotFoundError, match=r"tfds\.folder_dataset\.write_metadata"
    ) as caught:
        open_builder(str(folder), None)
    (command,) = re.findall("`(.*)`", str(caught.value))
    exec(command.replace("{...}", "{'number': np.int64}"), {"tfds": tfds, "np": np})
    assert open_split(open_builder(str(folder), None), "train").num_examples == 3
    with pytest.raises(DatasetNotFoundError) as caught:
        open_builder(str(tmp_path), None)
    assert "write_metadata" not in str(caught.value)

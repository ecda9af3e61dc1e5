# SPDX-License-Identifier: Apache-2.0
"""What `build` takes as a split, and what it finds out before anything is read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow_datasets as tfds

import tfjax_batches as tjb
from tests.made_datasets import Numbers

PAD: dict[str, Any] = {"global_batch_size": 4, "remainder": "pad"}


@pytest.mark.parametrize(
    ("split", "text"),
    [
        (tfds.core.ReadInstruction("train", from_=20), "train[20:23]"),
        (tfds.core.ReadInstruction("train", to=4) + "test[:4]", "train[0:4]+test[0:4]"),
        (tfds.even_splits("train", 2)[1], "train[12:23]"),
        (tfds.split_for_jax_process("train"), "train[0:23]"),
        (tfds.Split.TEST, "test"),
    ],
)
def test_build_split_object_is_the_text_of_its_ranges(
    numbers_folder: str, split: Any, text: str
) -> None:
    fields: dict[str, Any] = {"global_batch_size": 4, "shuffle": "none", "prefetch_depth": 0}
    loader = tjb.build(numbers_folder, split=split, **fields)
    same = tjb.build(numbers_folder, split=text, **fields)
    assert isinstance(loader.config, tjb.BatchConfig)
    assert type(loader.config.split) is str
    assert loader.config.split == text
    assert str(loader.describe()) == str(same.describe())
    with iter(loader) as batches:
        first = next(batches)["number"].tolist()
        state = json.loads(json.dumps(batches.get_state()))
    with iter(same) as batches:
        assert next(batches)["number"].tolist() == first
    with same.restore(state) as batches:
        assert batches.step == 1
    again = tjb.build(loader.config)
    assert again.num_examples == loader.num_examples


def test_build_split_object_is_filtered_as_its_text(numbers_folder: str) -> None:
    even = tjb.FilterExamples(lambda number: number % 2 == 0, features=("number",), name="even")
    split = tfds.core.ReadInstruction("train", from_=3, to=9)
    loader = tjb.build(numbers_folder, split=split, filter=even, **PAD)
    assert loader.num_examples == 3


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_build_names_the_files_that_are_missing(tmp_path: Path, file_format: str) -> None:
    builder = Numbers(num_examples=12, data_dir=tmp_path, file_format=file_format)
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=3))
    first, second, _ = sorted(Path(builder.data_path).glob("*-train*"))
    first.unlink()
    with pytest.raises(tjb.RecordError, match=f"of 3, {first} is missing. Restore the file"):
        tjb.build(builder, **PAD)
    tjb.build(builder, split="train[6:]+test", **PAD)  # other files
    second.unlink()
    with pytest.raises(tjb.RecordError, match=f"of 3, {first} and 1 more are missing"):
        tjb.build(builder, **PAD)
    shutil.rmtree(builder.data_path)
    with pytest.raises(tjb.RecordError, match=f"{builder.data_path} is not: "):
        tjb.build(builder, **PAD)

# SPDX-License-Identifier: Apache-2.0
"""Each storage format has a reader; others are refused by name."""

import json
import shutil
from pathlib import Path

import pytest

from tfjax_batches.errors import UnsupportedError
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.split import open_split


def test_open_reader_other_format_names_the_command_that_converts(
    numbers_folder: str, tmp_path: Path
) -> None:
    folder = tmp_path / "1.0.0"
    shutil.copytree(numbers_folder, folder)
    info = json.loads((folder / "dataset_info.json").read_text())
    (folder / "dataset_info.json").write_text(json.dumps({**info, "fileFormat": "riegeli"}))
    split = open_split(open_builder(str(folder), None), "train")
    with pytest.raises(UnsupportedError) as caught:
        open_reader(split)
    message = str(caught.value)
    assert " or ".join(["tfrecord", "array_record"]) in message
    assert "numbers/1.0.0 is stored as riegeli" in message
    assert f"tfds convert_format --dataset_version_dir={folder}" in message
    assert "--out_file_format=array_record --out_dir=" in message

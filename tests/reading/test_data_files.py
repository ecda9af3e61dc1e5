# SPDX-License-Identifier: Apache-2.0
"""Missing files are found by one listing of each folder, on any file system."""

import dataclasses
import uuid
from pathlib import Path

import pytest
import tensorflow as tf

from tests.reading.writing import write_split
from tfjax_batches.errors import RecordError
from tfjax_batches.reading.data_files import check_files_exist
from tfjax_batches.reading.split import Split


@pytest.mark.parametrize("file_system", ["", "ram://"])
def test_check_files_exist_lists_each_folder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_system: str
) -> None:
    folders = [f"{file_system}{tmp_path}/{uuid.uuid4().hex}" for _ in range(2)]
    for folder in folders:
        tf.io.gfile.makedirs(folder)
    ranges = [part for folder in folders for part in write_split(folder, 3, 2).ranges]
    split: Split = dataclasses.replace(write_split(tmp_path, 1, 1), ranges=tuple(ranges))
    listed: list[str] = []
    list_folder = tf.io.gfile.listdir

    def listdir(folder: str) -> list[str]:
        listed.append(folder)
        return list_folder(folder)  # type: ignore[no-any-return]

    monkeypatch.setattr(tf.io.gfile, "listdir", listdir)
    check_files_exist(split)
    assert sorted(listed) == sorted(folders)
    monkeypatch.chdir(tmp_path)
    check_files_exist(write_split("", 2, 1))
    tf.io.gfile.remove(ranges[4].path)
    with pytest.raises(RecordError) as caught:
        check_files_exist(split)
    assert f"of 6, {ranges[4].path} is missing. Restore the file" in str(caught.value)

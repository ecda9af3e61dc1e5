# SPDX-License-Identifier: Apache-2.0
"""Records by index, and damaged files named to the byte."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.errors import RecordError
from tfjax_batches.reading.source import open_builder, open_source
from tfjax_batches.reading.tfrecord import TFRecordReader, scan_offsets


def damaged_copy(folder: str, target: Path) -> list[Path]:
    """Copy a dataset and return the files of its train split, in order."""
    shutil.copytree(folder, target)
    return sorted(target.glob("*-train.tfrecord-*"))


def reader_of(folder: Path, **options: bool) -> TFRecordReader:
    return TFRecordReader(open_source(open_builder(str(folder), None), "train"), **options)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_scan_offsets_finds_what_tensorflow_wrote(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes]
) -> None:
    path = str(tmp_path_factory.mktemp("records") / "file")
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    data = Path(path).read_bytes()
    offsets = scan_offsets(data, path, len(records))
    found = [
        data[start + 12 : start + 12 + len(r)] for start, r in zip(offsets, records, strict=True)
    ]
    assert found == records


def test_read_any_order_and_repeats(numbers_folder: str) -> None:
    reader = reader_of(Path(numbers_folder))
    whole = reader.read(np.arange(23))
    chosen = np.array([22, 0, 7, 7, 15])
    assert reader.read(chosen).tolist() == whole[chosen].tolist()


def test_read_flipped_byte_names_file_record_and_offset(
    numbers_folder: str, tmp_path: Path
) -> None:
    files = damaged_copy(numbers_folder, tmp_path / "1.0.0")
    data = bytearray(files[1].read_bytes())
    offset = int(scan_offsets(bytes(data), str(files[1]), 7)[3])
    data[offset + 20] ^= 1
    files[1].write_bytes(data)
    first_of_file = len(scan_offsets(files[0].read_bytes(), "", 8))
    reader = reader_of(tmp_path / "1.0.0")
    reader.read(np.array([first_of_file + 2]))
    with pytest.raises(RecordError) as caught:
        reader.read(np.array([first_of_file + 3]))
    message = str(caught.value)
    assert f"record 3 of {files[1]}, at byte {offset}" in message
    assert "prepare the dataset again" in message
    reader_of(tmp_path / "1.0.0", verify_crc=False).read(np.array([first_of_file + 3]))


@pytest.mark.parametrize(
    ("cut", "text"), [(5, "leads beyond the end"), (-30, "the file goes on for 30 bytes")]
)
def test_read_cut_or_longer_file_is_named(
    numbers_folder: str, tmp_path: Path, cut: int, text: str
) -> None:
    files = damaged_copy(numbers_folder, tmp_path / "1.0.0")
    data = files[2].read_bytes()
    files[2].write_bytes(data[:-cut] if cut > 0 else data + bytes(-cut))
    with pytest.raises(RecordError) as caught:
        reader_of(tmp_path / "1.0.0").read(np.array([22]))
    assert str(files[2]) in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize("content", [None, b""])
def test_read_missing_or_empty_file_is_named(
    numbers_folder: str, tmp_path: Path, content: bytes | None
) -> None:
    files = damaged_copy(numbers_folder, tmp_path / "1.0.0")
    files[0].unlink()
    if content is not None:
        files[0].write_bytes(content)
    with pytest.raises(RecordError, match=f"{files[0]} is not"):
        reader_of(tmp_path / "1.0.0").read(np.array([0]))

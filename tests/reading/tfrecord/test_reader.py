# SPDX-License-Identifier: Apache-2.0
"""Records by index, and damaged files named to the byte."""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tfjax_batches.errors import RecordError
from tfjax_batches.reading.cache_file import cache_paths, split_stem
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.split import open_split
from tfjax_batches.reading.tfrecord.offsets import scan_offsets
from tfjax_batches.reading.tfrecord.reader import TFRecordReader


def damaged_copy(folder: str, target: Path) -> list[Path]:
    """Copy a dataset and return the files of its train split, in order."""
    shutil.copytree(folder, target)
    return sorted(target.glob("*-train.tfrecord-*"))


def reader_of(folder: Path, *, verify_crc: bool = True) -> TFRecordReader:
    return TFRecordReader(
        open_split(open_builder(str(folder), None), "train"), ReaderOptions(verify_crc=verify_crc)
    )


def scan(path: Path, num_records: int) -> list[int]:
    data = path.read_bytes()
    offsets: list[int] = scan_offsets(io.BytesIO(data), len(data), str(path), num_records).tolist()
    return offsets


def test_read_any_order_and_repeats(numbers_folder: str) -> None:
    reader = reader_of(Path(numbers_folder))
    whole = reader.read(np.arange(23))
    chosen = np.array([22, 0, 7, 7, 15])
    assert reader.read(chosen).tolist() == whole[chosen].tolist()


@pytest.mark.parametrize(("place", "part"), [(20, "data"), (9, "header")])
def test_read_flipped_byte_names_file_record_and_offset(
    numbers_folder: str, tmp_path: Path, place: int, part: str
) -> None:
    files = damaged_copy(numbers_folder, tmp_path / "1.0.0")
    data = bytearray(files[1].read_bytes())
    offset = scan(files[1], 7)[3]
    data[offset + place] ^= 1
    files[1].write_bytes(data)
    first_of_file = len(scan(files[0], 8)) - 1
    reader = reader_of(tmp_path / "1.0.0")
    reader.read(np.array([first_of_file + 2]))
    with pytest.raises(RecordError) as caught:
        reader.read(np.array([first_of_file + 3]))
    message = str(caught.value)
    assert f"record 3 of {files[1]}, at byte {offset}" in message
    assert "match its stored checksum" in message
    assert f"the {part} differ" in message
    assert "prepare the dataset again" in message
    reader_of(tmp_path / "1.0.0", verify_crc=False).read(np.array([first_of_file + 3]))


def test_read_index_that_lies_is_named(numbers_folder: str, tmp_path: Path) -> None:
    """Offsets of another record, of no record, and beyond the file: each is found when read."""
    files = damaged_copy(numbers_folder, tmp_path / "1.0.0")
    reader_of(tmp_path / "1.0.0").read(np.arange(1))
    kept = Path(cache_paths(split_stem(str(files[0])), "index")[0])
    good = kept.read_bytes()
    offsets = scan(files[1], 7)
    place = good.index(np.array(offsets, "<i8").tobytes()) + 3 * 8
    for lie in (offsets[3] + 1, offsets[3] - 8, offsets[2], offsets[5], -1, 2**62):
        kept.write_bytes(good[:place] + np.array([lie], "<i8").tobytes() + good[place + 8 :])
        reader = reader_of(tmp_path / "1.0.0")
        reader.read(np.array([8 + 1, 8 + 4]))
        for example in (8 + 2, 8 + 3):  # the record that ends there and the one that begins there
            with pytest.raises(RecordError) as caught:
                reader.read(np.array([8, example]))
            message = str(caught.value)
            assert f"record {example - 8} of {files[1]}, at byte " in message
            assert f"delete its index, {kept}" in message


@pytest.mark.parametrize(("cut", "text"), [(5, "is cut"), (-30, "30 bytes follow")])
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


def test_read_file_that_is_cut_while_it_is_mapped_is_named(
    numbers_folder: str, tmp_path: Path
) -> None:
    files = damaged_copy(numbers_folder, tmp_path / "1.0.0")
    reader = reader_of(tmp_path / "1.0.0")
    reader.read(np.arange(23))
    os.truncate(files[1], 0)
    with pytest.raises(RecordError, match=rf"{files[1]} is not: it was cut from \d+ to 0 bytes"):
        reader.read(np.arange(23))


@pytest.mark.parametrize("content", [None, b""])
def test_read_missing_or_empty_file_is_named(
    numbers_folder: str, tmp_path: Path, content: bytes | None
) -> None:
    files = damaged_copy(numbers_folder, tmp_path / "1.0.0")
    files[0].unlink()
    if content is not None:
        files[0].write_bytes(content)
    text = f"8 in {files[0]}; record 0, at byte 0, is cut" if content == b"" else "is not:"
    with pytest.raises(RecordError, match=text):
        reader_of(tmp_path / "1.0.0").read(np.array([0]))

# SPDX-License-Identifier: Apache-2.0
"""ArrayRecord copies of a dataset give what its TFRecord files give, and damage is named."""

import dataclasses
import gc
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from array_record.python.array_record_module import ArrayRecordWriter

import tfjax_batches as tjb
from tests.made_datasets import Numbers
from tfjax_batches.errors import RecordError
from tfjax_batches.reading.array_record import ArrayRecordReader
from tfjax_batches.reading.chunk_cache import ChunkCache
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.open_files import OpenFiles
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.split import Split, open_split


@pytest.fixture(scope="module")
def array_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`Numbers` as `numbers_folder` has it, in ArrayRecord files."""
    builder = Numbers(
        num_examples=23, data_dir=tmp_path_factory.mktemp("array"), file_format="array_record"
    )
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=3))
    return str(builder.data_path)


def open_in(folder: str | Path, split: str = "train") -> Split:
    return open_split(open_builder(str(folder), None), split)


def test_read_gives_the_records_of_tfrecord_files(numbers_folder: str, array_folder: str) -> None:
    order = np.random.default_rng(0).integers(0, 17, 60)
    split = "train[5:]+test[:3]"
    records = open_reader(open_in(array_folder, split)).read(order)
    assert records.tolist() == open_reader(open_in(numbers_folder, split)).read(order).tolist()


def test_read_asks_each_file_once(array_folder: str) -> None:
    reader = ArrayRecordReader(open_in(array_folder), ReaderOptions())
    calls: list[list[int]] = []

    class Counting:
        def __init__(self, file: Any) -> None:
            self._file = file

        def read(self, wanted: list[int]) -> list[bytes]:
            calls.append(wanted)
            records: list[bytes] = self._file.read(wanted)
            return records

    opened = {index: Counting(reader._files[index]) for index in range(3)}
    reader._files = OpenFiles(opened.__getitem__)
    reader.read(np.array([22, 0, 9, 3, 21]))
    assert len(calls) == 3


def test_batches_of_both_formats_are_equal(numbers_folder: str, array_folder: str) -> None:
    runs = [
        list(tjb.build(folder, global_batch_size=8, num_epochs=2, with_ids=True).host_batches())
        for folder in (numbers_folder, array_folder)
    ]
    assert len(runs[0]) == 5
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one["_id"], other["_id"])
        np.testing.assert_array_equal(one["vector"], other["vector"])
        np.testing.assert_array_equal(one["nested"]["image"], other["nested"]["image"])


def copied_files(folder: str, target: Path) -> list[Path]:
    shutil.copytree(folder, target)
    return sorted(target.glob("*-train.array_record-*"))


def test_read_damaged_record_is_named(array_folder: str, tmp_path: Path) -> None:
    files = copied_files(array_folder, tmp_path / "1.0.0")
    data = bytearray(files[1].read_bytes())
    data[200] ^= 1
    files[1].write_bytes(data)
    with pytest.raises(RecordError, match=rf"record \d of {files[1]} cannot be read: .*mismatch"):
        open_reader(open_in(tmp_path / "1.0.0")).read(np.arange(23))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (lambda data: None, "is not: .*No such file"),
        (lambda data: b"", "its own index counts 0"),
        (lambda data: data[: len(data) // 2], "its own index counts 0"),
    ],
)
def test_read_missing_or_cut_file_is_named(
    array_folder: str, tmp_path: Path, content: Callable[[bytes], bytes | None], text: str
) -> None:
    files = copied_files(array_folder, tmp_path / "1.0.0")
    data = content(files[0].read_bytes())
    files[0].unlink()
    if data is not None:
        files[0].write_bytes(data)
    with pytest.raises(RecordError, match=rf"{files[0]}.* {text}"):
        open_reader(open_in(tmp_path / "1.0.0")).read(np.array([0]))


def test_read_other_record_count_is_named(array_folder: str) -> None:
    split = open_in(array_folder)
    first = dataclasses.replace(split.ranges[0], records_in_file=9)
    split = dataclasses.replace(split, ranges=(first,))
    with pytest.raises(RecordError, match=rf"counts, 9 in {first.path}; its own index counts 8"):
        open_reader(split).read(np.array([0]))


@pytest.fixture
def remote_split(array_folder: str) -> Split:
    """The split on a file system in memory."""
    split, folder = open_in(array_folder), f"ram://{uuid.uuid4().hex}"
    tf.io.gfile.makedirs(folder)
    ranges = []
    for part in split.ranges:
        path = f"{folder}/{os.path.basename(part.path)}"
        tf.io.gfile.copy(part.path, path)
        ranges.append(dataclasses.replace(part, path=path))
    return dataclasses.replace(split, ranges=tuple(ranges))


def test_remote_files_are_copied_while_they_are_read(
    array_folder: str, remote_split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    order = np.array([22, 0, 9, 9])
    reader = open_reader(remote_split)
    expected = open_reader(open_in(array_folder)).read(order).tolist()
    assert reader.read(order).tolist() == expected
    assert len([*tmp_path.glob("*/*.file")]) == len(remote_split.ranges)
    del reader
    gc.collect()
    assert not [*tmp_path.iterdir()]


def test_remote_files_are_kept_in_the_cache(
    remote_split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ReaderOptions(cache=ChunkCache(str(tmp_path), 10**6))
    expected = open_reader(remote_split, options).read(np.arange(23)).tolist()

    def copied(*_: str) -> None:
        raise AssertionError("it is in the cache")

    monkeypatch.setattr(tf.io.gfile, "copy", copied)
    assert open_reader(remote_split, options).read(np.arange(23)).tolist() == expected


def test_remote_file_that_is_missing_is_named(remote_split: Split) -> None:
    tf.io.gfile.remove(path := remote_split.ranges[1].path)
    with pytest.raises(RecordError, match=f"{path} is not"):
        open_reader(remote_split).open()


def test_groups_of_records_are_warned_of(
    array_folder: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    part = open_in(array_folder).ranges[0]
    writer = ArrayRecordWriter(str(tmp_path / "file"), "group_size:4")
    for number in range(8):
        writer.write(b"%d" % number)
    writer.close()
    part = dataclasses.replace(part, path=str(tmp_path / "file"), skip=0, take=8, records_in_file=8)
    reader = open_reader(dataclasses.replace(open_in(array_folder), ranges=(part,)))
    assert reader.read(np.array([5, 1])).tolist() == [b"5", b"1"]
    assert "all records of its group are decoded" in caplog.text
    caplog.clear()
    open_reader(open_in(array_folder)).open()
    assert not caplog.records


def test_open_missing_file_is_named_before_any_read(array_folder: str, tmp_path: Path) -> None:
    files = copied_files(array_folder, tmp_path / "1.0.0")
    files[2].unlink()
    reader = open_reader(open_in(tmp_path / "1.0.0"))
    with pytest.raises(RecordError, match=rf"{files[2]} is not: .*No such file"):
        reader.open()


def test_reader_that_is_dropped_closes_its_files_without_the_collector(array_folder: str) -> None:
    def open_files() -> int:
        links = (os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd"))
        return sum(".array_record" in os.readlink(link) for link in links if os.path.islink(link))

    gc.collect()
    gc.disable()
    try:
        before = open_files()
        reader = ArrayRecordReader(open_in(array_folder), ReaderOptions())
        reader.open()
        assert open_files() == before + 3
        del reader
        assert open_files() == before
    finally:
        gc.enable()

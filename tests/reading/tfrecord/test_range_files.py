# SPDX-License-Identifier: Apache-2.0
"""TFRecord files where there are no memory maps, on TensorFlow's file system in memory."""

import errno
import itertools
import os
import random
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.reading.writing import write_split
from tfjax_batches.config.reading import Reading
from tfjax_batches.errors import RecordError, UnsupportedError
from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.split import Split
from tfjax_batches.reading.storage import open_file
from tfjax_batches.reading.tfrecord import range_files
from tfjax_batches.reading.tfrecord.range_files import RangeFiles, plan_ranges
from tfjax_batches.reading.tfrecord.reader import TFRecordReader


@pytest.fixture
def split() -> Split:
    """Four files of five records in memory."""
    folder = f"ram://{uuid.uuid4().hex}"
    tf.io.gfile.makedirs(folder)
    return write_split(folder, num_files=4, per_file=5)


def flip_byte(path: str, offset: int) -> None:
    with tf.io.gfile.GFile(path, "rb") as file:
        data = bytearray(file.read())
    data[offset] ^= 1
    rewrite(path, bytes(data))


def rewrite(path: str, data: bytes) -> None:
    tf.io.gfile.remove(path)  # a file in memory that is opened for writing keeps its content
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)


def test_read_any_order_and_repeats(split: Split) -> None:
    reader = open_reader(split)
    assert isinstance(reader, TFRecordReader)
    assert isinstance(reader._files, RangeFiles)
    order = np.array([19, 0, 7, 7, 13, 8])
    assert reader.read(order).tolist() == [f"r{n // 5}.{n % 5}".encode() for n in order]
    assert reader.read(np.empty(0, np.int64)).tolist() == []
    assert reader.mean_record_bytes() == 4


def test_read_index_is_kept_beside_the_remote_files(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_reader(split).read(np.arange(20))
    folder = split.ranges[0].path.rsplit("/", 1)[0]
    assert ".made-train.tfrecord.tfjax_batches.index" in tf.io.gfile.listdir(folder)
    monkeypatch.setattr("tfjax_batches.reading.tfrecord.partial_scan.scan_offsets", None)
    assert open_reader(split).read(np.array([12])).tolist() == [b"r2.2"]


def test_read_merges_neighbours_and_waits_for_many_at_a_time(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = TFRecordReader(split, ReaderOptions())
    reader.read(np.arange(1))
    reads: list[str] = []

    def noted(path: str) -> Any:
        reads.append(path)
        return open_file(path)

    monkeypatch.setattr(range_files, "open_file", noted)
    reader.read(np.arange(20))
    assert sorted(reads) == [part.path for part in split.ranges]


def test_read_damaged_record_names_file_record_and_offset(split: Split) -> None:
    path = split.ranges[2].path
    flip_byte(path, 3 * 20 + 13)
    with pytest.raises(RecordError, match=rf"record 3 of {path}, at byte 60: the data differ"):
        open_reader(split).read(np.arange(20))
    assert open_reader(split, ReaderOptions(verify_crc=False)).read(np.array([13]))[0] != b"r2.3"


def test_read_missing_file_is_named(split: Split) -> None:
    path = split.ranges[1].path
    reader = open_reader(split)
    reader.read(np.arange(1))
    tf.io.gfile.remove(path)
    for each in (reader, open_reader(split)):
        with pytest.raises(RecordError, match=rf"{path} is not: .*Restore the file"):
            each.read(np.arange(20))


def test_read_file_cut_after_indexing_is_named(split: Split) -> None:
    reader = open_reader(split)
    reader.read(np.arange(1))
    path = split.ranges[3].path
    with tf.io.gfile.GFile(path, "rb") as file:
        data = file.read()
    rewrite(path, data[:50])
    with pytest.raises(RecordError, match=rf"record 2 of {path}, at byte 40: the file has no"):
        reader.read(np.arange(15, 20))


def test_local_and_remote_readers_agree(tmp_path: Path, split: Split) -> None:
    local = write_split(tmp_path, num_files=4, per_file=5)
    order = np.random.default_rng(0).integers(0, 20, 50)
    assert open_reader(local).read(order).tolist() == open_reader(split).read(order).tolist()


class Storage:
    """Reads of a file of this machine that fail, take long, or give too little, now and then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        self._read = os.pread
        self._lock = threading.Lock()
        self._random = random.Random(0)
        monkeypatch.setattr(os, "pread", self.pread)
        monkeypatch.setattr(range_files, "_PAUSES", (0.001,) * 5)

    def pread(self, file: int, count: int, offset: int) -> bytes:
        with self._lock:
            self.reads += 1
            chance = self._random.random()
        if chance < 1 / 20:
            raise OSError(errno.EIO, "Input/output error")
        if chance < 1 / 20 + 1 / 200:
            time.sleep(0.5)
        data = self._read(file, count, offset)
        return data[:-1] if 0.1 < chance < 0.11 else data


def test_storage_with_errors_gives_all_records_and_one_line_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    local = write_split(tmp_path, num_files=4, per_file=250)
    monkeypatch.setattr(range_files, "_GAP_BYTES", -1)  # each record alone
    reader = open_reader(local, ReaderOptions(reading=Reading.RANGE))
    storage = Storage(monkeypatch)
    order = np.random.default_rng(0).permutation(1000)
    assert reader.read(order).tolist() == [f"r{n // 250}.{n % 250}".encode() for n in order]
    assert storage.reads > 1000
    assert len(caplog.records) == 4
    assert "is tried again" in caplog.text


def test_error_that_lasts_names_file_and_range_and_a_missing_file_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = write_split(tmp_path, num_files=2, per_file=5)
    reader = open_reader(local, ReaderOptions(reading=Reading.RANGE))
    reader.open()

    def broken(*_: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(range_files, "_PAUSES", (0.001,) * 5)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", broken)
        with pytest.raises(RecordError, match=r"00000-of-00002 is not: bytes 20 to 40: .*output"):
            reader.read(np.array([1]))
    monkeypatch.setattr(range_files, "_PAUSES", (60.0,))
    os.remove(local.ranges[1].path)
    with pytest.raises(RecordError, match="No such file"):
        reader.read(np.array([7]))


def test_reading_map_of_a_remote_file_is_refused(split: Split) -> None:
    with pytest.raises(UnsupportedError, match="is on another file system"):
        open_reader(split, ReaderOptions(reading=Reading.MAP))


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2**19), st.integers(16, 2**21)), max_size=30
    ),
    st.data(),
)
def test_plan_ranges_cover_each_record_once_and_are_few(
    records: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    # Each record comes some bytes after the one before it in its file.
    of_record = np.array([file for file, _, _ in records], np.int64)
    gaps = np.array([gap for _, gap, _ in records], np.int64)
    sizes = np.array([size for _, _, size in records], np.int64)
    stops = np.zeros_like(sizes)
    for file in range(3):
        here = of_record == file
        stops[here] = np.cumsum(gaps[here] + sizes[here])
    chosen = data.draw(st.lists(st.integers(0, len(records) - 1))) if records else []
    files, starts, ends = of_record[chosen], (stops - sizes)[chosen], stops[chosen]
    groups = plan_ranges(files, starts, ends)
    assert sorted(member for group in groups for member in group) == [*range(len(chosen))]
    for group in groups:
        assert len(set(files[group])) == 1
        assert ends[group].max() - starts[group].min() <= 2**23
    for one, other in itertools.pairwise(groups):
        is_near = starts[other].min() <= ends[one].max() + 2**18
        would_fit = ends[other[0]] <= starts[one].min() + 2**23
        assert files[one[0]] != files[other[0]] or not (is_near and would_fit)

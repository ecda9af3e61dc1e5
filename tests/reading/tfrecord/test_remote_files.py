# SPDX-License-Identifier: Apache-2.0
"""TFRecord files where there are no memory maps, on TensorFlow's file system in memory."""

import itertools
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.reading.writing import write_split
from tfjax_batches.errors import RecordError
from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.split import Split
from tfjax_batches.reading.storage import open_file
from tfjax_batches.reading.tfrecord import remote_files
from tfjax_batches.reading.tfrecord.reader import TFRecordReader
from tfjax_batches.reading.tfrecord.remote_files import RemoteFiles, plan_ranges


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
    assert isinstance(reader._files, RemoteFiles)
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
    monkeypatch.setattr("tfjax_batches.reading.tfrecord.record_index.scan_offsets", None)
    assert open_reader(split).read(np.array([12])).tolist() == [b"r2.2"]


def test_read_merges_neighbours_and_waits_for_many_at_a_time(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = TFRecordReader(split)
    reader.read(np.arange(1))
    reads: list[str] = []

    def noted(path: str) -> Any:
        reads.append(path)
        return open_file(path)

    monkeypatch.setattr(remote_files, "open_file", noted)
    reader.read(np.arange(20))
    assert sorted(reads) == [part.path for part in split.ranges]


def test_read_damaged_record_names_file_record_and_offset(split: Split) -> None:
    path = split.ranges[2].path
    flip_byte(path, 3 * 20 + 13)
    with pytest.raises(RecordError, match=rf"record 3 of {path}, at byte 60: the data differ"):
        open_reader(split).read(np.arange(20))
    assert open_reader(split, verify_crc=False).read(np.array([13]))[0] != b"r2.3"


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


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2**25), st.integers(16, 2**21)), max_size=30
    )
)
def test_plan_ranges_cover_each_record_once_and_are_few(
    records: list[tuple[int, int, int]],
) -> None:
    files = np.array([file for file, _, _ in records], np.int64)
    starts = np.array([start for _, start, _ in records], np.int64)
    ends = starts + np.array([size for _, _, size in records], np.int64)
    groups = plan_ranges(files, starts, ends)
    assert sorted(member for group in groups for member in group) == [*range(len(records))]
    for group in groups:
        assert len(set(files[group])) == 1
        assert ends[group].max() - starts[group].min() <= 2**23
    for one, other in itertools.pairwise(groups):
        is_near = starts[other].min() <= ends[one].max() + 2**18
        would_fit = ends[other[0]] <= starts[one].min() + 2**23
        assert files[one[0]] != files[other[0]] or not (is_near and would_fit)

# SPDX-License-Identifier: Apache-2.0
"""Offsets are those of the records that TensorFlow wrote, however the file is scanned."""

import itertools
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.reading.tfrecord.test_reader import scan
from tests.reading.writing import write_records
from tfjax_batches.errors import UnsupportedError
from tfjax_batches.reading.tfrecord import offsets as offsets_module


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(1, 400), st.integers(0, 2**15))
def test_scan_offsets_finds_what_tensorflow_wrote(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[bytes],
    chunk_bytes: int,
    large_record_bytes: int,
) -> None:
    path = tmp_path_factory.mktemp("records") / "file"
    write_records(path, records)
    data = path.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offsets_module, "_CHUNK_BYTES", max(12, chunk_bytes))
        patch.setattr(offsets_module, "_LARGE_RECORD_BYTES", large_record_bytes)
        offsets = scan(path, len(records))
    assert [data[s + 12 : e - 4] for s, e in itertools.pairwise(offsets)] == records


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_scan_offsets_of_a_compressed_file_says_so(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "file"
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        writer.write(b"one")
    with pytest.raises(UnsupportedError) as caught:
        scan(path, 1)
    assert f"{path} is compressed with gzip or zlib" in str(caught.value)
    assert "tf.data.TFRecordDataset(path, compression_type=...)" in str(caught.value)
    assert "Restore" not in str(caught.value)

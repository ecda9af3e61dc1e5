# SPDX-License-Identifier: Apache-2.0
"""Memory maps take neither the memory nor the descriptors of the process."""

import os
import resource
from pathlib import Path

import numpy as np
import pytest

from tests.reading.writing import split_of, write_records, write_split
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.tfrecord.reader import TFRecordReader


def mapped_bytes() -> int:
    """Return the memory of this process that is pages of files."""
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if "RssFile" in x]
    return int(line.split()[1]) * 1024


def test_read_much_keeps_few_pages_of_the_files(tmp_path: Path) -> None:
    record = os.urandom(2**20)
    write_records(tmp_path / "file", [record] * 80)
    reader = TFRecordReader(split_of({str(tmp_path / "file"): 80}), ReaderOptions())
    reader.read(np.arange(1))
    before = mapped_bytes()
    for example in range(80):
        (found,) = reader.read(np.array([example]))
        assert found == record
        assert mapped_bytes() < before + 40 * 2**20


def test_read_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (20, 20))
    reader = TFRecordReader(write_split(tmp_path, num_files=12, per_file=3), ReaderOptions())
    order = np.random.default_rng(0).permutation(36).repeat(3)
    assert reader.read(order).tolist() == [f"r{n // 3}.{n % 3}".encode() for n in order]
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    assert sum(path.startswith(f"{tmp_path}/made") for path in mapped) == 5

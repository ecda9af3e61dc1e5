# SPDX-License-Identifier: Apache-2.0
"""The index is cached, and used only for files that have not changed."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from tests.reading.writing import write_records, write_split
from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading import cache_file, storage
from tfjax_batches.reading.cache_file import cache_paths, split_stem
from tfjax_batches.reading.split import Split
from tfjax_batches.reading.tfrecord import partial_scan, record_index
from tfjax_batches.reading.tfrecord.offsets import scan_offsets
from tfjax_batches.reading.tfrecord.partial_scan import Part
from tfjax_batches.reading.tfrecord.record_index import RecordIndex, index_part, open_index


@pytest.fixture(autouse=True)
def scanned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the files that are scanned; the user's cache folder is one of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names: list[str] = []

    def counted(file: BinaryIO, size: int, path: str, num_records: int) -> Int64Array:
        names.append(os.path.basename(path))
        return scan_offsets(file, size, path, num_records)

    monkeypatch.setattr(partial_scan, "scan_offsets", counted)
    return names


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders that nothing can be written to (permissions do not bind root, who may run this)."""
    folders: list[str] = []

    def refusing(path: str, write: Callable[[Any], object]) -> None:
        if any(path.startswith(folder) for folder in folders):
            raise PermissionError(13, "Permission denied", path)
        storage.replace_file(path, write)

    monkeypatch.setattr(cache_file, "replace_file", refusing)
    return folders


def files_of(split: Split) -> dict[str, int]:
    return {r.path: r.records_in_file for r in split.ranges}


def read_all(index: RecordIndex, split: Split) -> list[bytes]:
    """Return the data of all records by the index."""
    found = []
    for number, file_range in enumerate(split.ranges):
        data = Path(file_range.path).read_bytes()
        records = np.arange(file_range.records_in_file)
        starts, ends = index.extents(np.full_like(records, number), records)
        found += [data[s + 12 : e - 4] for s, e in zip(starts, ends, strict=True)]
    return found


def expected(num_files: int, per_file: int, prefix: str = "r") -> list[bytes]:
    return [f"{prefix}{f}.{n}".encode() for f in range(num_files) for n in range(per_file)]


def test_open_index_is_cached_beside_the_dataset(tmp_path: Path, scanned: list[str]) -> None:
    split = write_split(tmp_path, num_files=3, per_file=5)
    assert read_all(open_index(files_of(split)), split) == expected(3, 5)
    assert len(scanned) == 3
    assert read_all(open_index(files_of(split)), split) == expected(3, 5)
    assert len(scanned) == 3  # nothing is scanned again
    (kept,) = tmp_path.glob(".*")
    assert str(kept) == cache_paths(str(tmp_path / "made-train.tfrecord"), "index")[0]
    assert kept.stat().st_mode & 0o777 == 0o644


def test_open_index_of_some_files_scans_only_these_and_adds_the_rest_later(
    tmp_path: Path, scanned: list[str]
) -> None:
    split = write_split(tmp_path, num_files=4, per_file=2)
    some = dict(list(files_of(split).items())[1:3])
    open_index(some)
    assert len(scanned) == 2
    assert read_all(open_index(files_of(split)), split) == expected(4, 2)
    assert len(scanned) == 4
    open_index(some)
    open_index(files_of(split))
    assert len(scanned) == 4


def replace_file(path: Path) -> None:
    write_records(path, [b"new%d" % number for number in range(5)])


def replace_file_with_one_of_equal_size(path: Path) -> None:
    before = path.stat()
    write_records(path, [b"x", b"y" * 7, b"z...", b"z...", b"z..."])
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


@pytest.mark.parametrize("change", [replace_file, replace_file_with_one_of_equal_size])
def test_open_index_notices_a_replaced_file(
    tmp_path: Path, scanned: list[str], change: Callable[[Path], None]
) -> None:
    split = write_split(tmp_path, num_files=3, per_file=5)
    open_index(files_of(split))
    change(Path(split.ranges[1].path))
    found = read_all(open_index(files_of(split)), split)
    assert scanned[3:] == [os.path.basename(split.ranges[1].path)]
    assert found[:5] == expected(3, 5)[:5]
    assert found[5:10] != expected(3, 5)[5:10]
    assert all(found)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda data: data[:-3], "record 4, at byte 80, is cut"),
        (lambda data: data[:-19], "record 4, at byte 80, is cut"),
        (lambda data: data + data[:20], "20 bytes follow"),
        (
            lambda data: data[:80] + b"\x05" + data[81:],
            "record 4, at byte 80, is cut",
        ),
        # A length that leads to no record of its own makes the scan fail further on.
        (
            lambda data: data[:20] + b"\x00" + data[21:],
            "record 1, at byte 20, is cut",
        ),
    ],
)
def test_open_index_changed_file_is_named_with_record_and_offset(
    tmp_path: Path, change: Callable[[bytes], bytes], text: str
) -> None:
    split = write_split(tmp_path, num_files=3, per_file=5)
    open_index(files_of(split))
    path = Path(split.ranges[2].path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(RecordError, match=rf"5 in {path}; {text}.*prepare the dataset again"):
        open_index(files_of(split))


@pytest.mark.parametrize("record", [0, 4])
def test_open_index_any_bit_of_a_length_flipped_is_named(tmp_path: Path, record: int) -> None:
    split = write_split(tmp_path, num_files=1, per_file=5)
    path = Path(split.ranges[0].path)
    good = path.read_bytes()
    text = rf"{path}; record {record}, at byte {20 * record}, is cut or has a damaged length"
    for bit in range(64):
        data = bytearray(good)
        data[20 * record + bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with pytest.raises(RecordError, match=text):
            open_index(files_of(split))


def test_open_index_notices_other_shard_lengths(tmp_path: Path) -> None:
    split = write_split(tmp_path, num_files=2, per_file=5)
    files = files_of(split)
    open_index(files)
    files[split.ranges[0].path] = 4
    with pytest.raises(RecordError, match=r"counts, 4 in .*20 bytes follow"):
        open_index(files)


def with_header(data: bytes, header: Any) -> bytes:
    return data[: data.index(b"{", data.index(b"\n"))] + json.dumps(header).encode()


def with_offsets(data: bytes, change: Callable[[Any], Any]) -> bytes:
    """Return an index file with other offsets and its header."""
    header = data[data.index(b"{", data.index(b"\n")) :]
    file = io.BytesIO()
    np.save(file, change(np.load(io.BytesIO(data))))
    return file.getvalue() + header


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"garbage",
        lambda data: data[:-8],
        lambda data: data[: len(data) // 2],
        lambda data: data[: data.index(b"{")],  # no header
        lambda data: data.replace(b"index 2", b"index 1"),
        lambda data: with_header(data, []),
        lambda data: with_header(data, {}),
        lambda data: with_header(data, {"format": "tfjax_batches index 2"}),
        lambda data: with_header(data, {"format": "tfjax_batches index 2", "files": [[1]]}),
        lambda data: data[: data.index(b"{")] + b"[" * 100,
        lambda data: with_offsets(data, lambda offsets: offsets[:-2]),
        lambda data: with_offsets(data, lambda offsets: np.roll(offsets, 1)),
        lambda data: with_offsets(data, lambda offsets: np.append(offsets[1:], offsets[-1])),
    ],
)
def test_open_index_damaged_index_file_is_written_again(
    tmp_path: Path, scanned: list[str], damage: Callable[[bytes], bytes]
) -> None:
    split = write_split(tmp_path, num_files=2, per_file=3)
    open_index(files_of(split))
    kept = Path(cache_paths(split_stem(split.ranges[0].path), "index")[0])
    good = kept.read_bytes()
    kept.write_bytes(damage(good))
    assert read_all(open_index(files_of(split)), split) == expected(2, 3)
    assert len(scanned) > 2
    assert kept.read_bytes() == good


def test_open_index_of_a_read_only_dataset_is_in_the_users_cache(
    tmp_path: Path, scanned: list[str], refused: list[str]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    split = write_split(folder, num_files=2, per_file=3)
    refused.append(str(folder))
    open_index(files_of(split))
    assert read_all(open_index(files_of(split)), split) == expected(2, 3)
    assert len(scanned) == 2
    assert [path.suffix for path in (tmp_path / "cache" / "tfjax_batches").iterdir()] == [".index"]
    assert not list(folder.glob(".*"))


def test_open_index_nothing_is_writable_works_and_warns(
    tmp_path: Path,
    scanned: list[str],
    refused: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    split = write_split(tmp_path, num_files=2, per_file=3)
    refused.append(str(tmp_path))
    for _ in range(2):
        assert read_all(open_index(files_of(split)), split) == expected(2, 3)
    assert len(scanned) == 4
    assert "cannot be cached and is computed again at each start" in caplog.text
    assert "set XDG_CACHE_HOME" in caplog.text
    assert not list(tmp_path.rglob("*.index*"))


def test_open_index_by_two_processes_at_once_does_no_harm(tmp_path: Path) -> None:
    split = write_split(tmp_path, num_files=8, per_file=50)
    code = (
        "import sys, json, pathlib\n"
        "from tfjax_batches.reading.tfrecord.record_index import open_index\n"
        "files = json.loads(sys.argv[1])\n"
        "print('ready', flush=True); input()\n"
        "for turn in range(20):\n"
        "    index = open_index(files)\n"
        "    assert len(index.offsets) == 8 * 51, index\n"
        "    [p.unlink(missing_ok=True) for p in pathlib.Path(sys.argv[2]).glob('.made*.index')]\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(files_of(split)), str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    results = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        results.append(process.communicate(timeout=100))
    assert [process.returncode for process in processes] == [0, 0], results
    assert read_all(open_index(files_of(split)), split) == expected(8, 50)
    assert len(list(tmp_path.glob("*.index*"))) == 1  # and no temporary file


def test_open_index_missing_file_is_named(tmp_path: Path) -> None:
    split = write_split(tmp_path, num_files=2, per_file=3)
    Path(split.ranges[1].path).unlink()
    with pytest.raises(RecordError, match=rf"{split.ranges[1].path} is not: .*No such file"):
        open_index(files_of(split))


def test_open_index_offsets_stay_in_the_file(tmp_path: Path) -> None:
    """8 bytes a record; only the used ones are read."""
    split = write_split(tmp_path, num_files=2, per_file=3)
    open_index(files_of(split))
    offsets = open_index(files_of(split)).offsets
    assert offsets.nbytes == 8 * (6 + 2)
    assert not offsets.flags.owndata
    assert not offsets.flags.writeable


def test_parts_scan_each_file_once_and_the_rest_is_taken_over(
    tmp_path: Path, scanned: list[str]
) -> None:
    split = write_split(tmp_path, num_files=7, per_file=3)
    for number in range(3):
        (kept,) = index_part(files_of(split), Part(number, 3))
        assert kept.endswith(f".index.{number:05}-of-00003")
    assert sorted(scanned) == sorted(os.path.basename(r.path) for r in split.ranges)
    assert index_part(files_of(split), Part(0, 3)) == []  # nothing is missing
    for _ in range(2):
        assert read_all(open_index(files_of(split), Part(1, 3)), split) == expected(7, 3)
    assert len(scanned) == 7


def test_parts_of_another_count_are_taken_over(tmp_path: Path, scanned: list[str]) -> None:
    split = write_split(tmp_path, num_files=4, per_file=3)
    index_part(files_of(split), Part(1, 2))
    assert read_all(open_index(files_of(split)), split) == expected(4, 3)
    assert len(scanned) == 4


def test_processes_share_a_scan(tmp_path: Path, scanned: list[str]) -> None:
    split = write_split(tmp_path, num_files=8, per_file=3)
    with ThreadPoolExecutor(4) as pool:  # as threads of this process
        parts = [Part(number, 4) for number in range(4)]
        found = list(pool.map(lambda part: open_index(files_of(split), part), parts))
    assert len(scanned) == 8
    assert all(read_all(index, split) == expected(8, 3) for index in found)
    assert not [*tmp_path.glob("*-of-00004*index*")]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith("-of-00004")]


def test_process_that_died_is_not_waited_for(
    tmp_path: Path, scanned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_scan, "_LEAST_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(partial_scan, "_LOOK_SECONDS", 0.01)
    split = write_split(tmp_path, num_files=4, per_file=3)
    assert read_all(open_index(files_of(split), Part(2, 4)), split) == expected(4, 3)
    assert len(scanned) == 4


def test_files_are_looked_up_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = write_split(tmp_path, num_files=4, per_file=5)
    all_at_once = threading.Barrier(4, timeout=10)

    def look_up(path: str, num_records: int) -> cache_file.FileKey:
        all_at_once.wait()
        return cache_file.file_key(path, num_records)

    monkeypatch.setattr(record_index, "file_key", look_up)
    open_index(files_of(split))


def test_index_on_a_network_mount_is_read_not_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = write_split(tmp_path, num_files=4, per_file=5)
    expected = open_index(files_of(split)).offsets
    monkeypatch.setattr(cache_file, "is_network_mount", lambda path: True)
    found = open_index(files_of(split)).offsets
    assert found.tolist() == expected.tolist()
    assert found.flags.writeable  # mapped: read-only

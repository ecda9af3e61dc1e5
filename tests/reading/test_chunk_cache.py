# SPDX-License-Identifier: Apache-2.0
"""Chunks are fetched once, checked, deleted in time, and survive killed processes."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.errors import ConfigError
from tfjax_batches.reading import chunk_cache
from tfjax_batches.reading.chunk_cache import ChunkCache, open_cache

DATA = random.Random(0).randbytes(1000)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_cache, "CHUNK_BYTES", 100)


class Store:
    """A far file of `DATA`."""

    def __init__(self, cache: ChunkCache) -> None:
        self.cache = cache
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, start: int, end: int) -> bytes:
        self.fetched.append((start, end))
        return DATA[start:end]

    def read(self, start: int, end: int) -> None:
        assert self.cache.read("data", len(DATA), start, end, self.fetch) == DATA[start:end]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=20))
def test_any_ranges_are_those_of_the_file_and_each_chunk_is_fetched_once(
    tmp_path_factory: pytest.TempPathFactory, ranges: list[tuple[int, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_cache, "CHUNK_BYTES", 70)
        folder = str(tmp_path_factory.mktemp("cache"))
        store = Store(ChunkCache(folder, 10**6))
        for start, end in ranges:
            store.read(min(start, end), max(start, end))
        assert len(store.fetched) == len(set(store.fetched))
        again = Store(ChunkCache(folder, 10**6))
        for start, end in ranges:
            again.read(min(start, end), max(start, end))
        assert not again.fetched


def test_threads_fetch_a_chunk_once_and_an_error_goes_to_all(tmp_path: Path) -> None:
    store = Store(ChunkCache(str(tmp_path), 10**6))
    fetch = store.fetch

    def slow(start: int, end: int) -> bytes:
        time.sleep(0.02)
        return fetch(start, end)

    store.fetch = slow  # type: ignore[method-assign]
    threads = [threading.Thread(target=store.read, args=(0, 1000)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.fetched) == 10

    def failing(start: int, end: int) -> bytes:
        raise OSError("far away")

    for _ in range(2):
        with pytest.raises(OSError, match="far away"):
            store.cache.read("other", 10, 0, 10, failing)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "longer"])
def test_damaged_chunk_is_fetched_again(tmp_path: Path, damage: str) -> None:
    Store(ChunkCache(str(tmp_path), 10**6)).read(0, 1000)
    (chunk,) = tmp_path.glob("*/3")
    content = chunk.read_bytes()
    changed = {
        "cut": content[:50],
        "changed": bytes([content[0] ^ 1]) + content[1:],
        "empty": b"",
        "longer": content + b"x",
    }
    chunk.write_bytes(changed[damage])
    store = Store(ChunkCache(str(tmp_path), 10**6))
    store.read(0, 1000)
    assert store.fetched == [(300, 400)]
    assert chunk.read_bytes() == content


def test_least_recently_read_chunks_are_deleted(tmp_path: Path) -> None:
    store = Store(ChunkCache(str(tmp_path), 560))
    for number in range(5):
        store.read(100 * number, 100 * number + 100)
        for chunk in tmp_path.glob(f"*/{number}"):
            os.utime(chunk, (number, number))  # long ago
    store.read(0, 100)  # marked as read just now
    store.read(500, 600)
    left = {path.name for path in tmp_path.glob("*/*")}
    assert {"0", "5"} <= left
    assert "1" not in left
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= 560
    store.read(0, 1000)


def test_full_disk_is_logged_once_and_reads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    store = Store(ChunkCache(str(tmp_path), 10**6))
    store.read(0, 1000)
    store.read(0, 1000)
    assert len(store.fetched) == 20
    assert [*tmp_path.glob("*/*")] == []
    assert len(caplog.records) == 1
    assert "No space left on device" in caplog.text


def test_changed_file_has_other_chunks(tmp_path: Path) -> None:
    cache = ChunkCache(str(tmp_path), 10**6)
    assert cache.read("file, yesterday", 3, 0, 3, lambda *_: b"old") == b"old"
    assert cache.read("file, today", 3, 0, 3, lambda *_: b"new") == b"new"


def test_open_cache_of_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cache_dir must be a folder that can be written"):
        open_cache(str(tmp_path / "file"), None)
    assert open_cache(None, None) is None


FILL = """
import random, sys
from tfjax_batches.reading.chunk_cache import ChunkCache
data = random.Random(0).randbytes(2**23 + 5)
cache = ChunkCache(sys.argv[1], 2**22)
print("ready", flush=True)
while True:
    start = random.randrange(len(data))
    end = min(len(data), start + random.randrange(2**21))
    assert cache.read("big", len(data), start, end, lambda a, b: data[a:b]) == data[start:end]
    if len(sys.argv) > 2:
        print("right", flush=True)
"""


def test_killed_processes_leave_no_wrong_chunk(tmp_path: Path) -> None:
    """One of two processes is killed 20 times, while the other goes on, and all bytes are right."""
    command = [sys.executable, "-c", FILL, str(tmp_path)]
    survivor = subprocess.Popen([*command, "check"], stdout=subprocess.PIPE, text=True)
    assert survivor.stdout is not None
    wait = random.Random(1)
    for _ in range(20):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdout is not None
            assert victim.stdout.readline() == "ready\n"
            time.sleep(wait.uniform(0, 0.05))
            assert victim.poll() is None
            victim.send_signal(signal.SIGKILL)
        assert survivor.poll() is None
    with subprocess.Popen([*command, "check"], stdout=subprocess.PIPE, text=True) as restarted:
        assert restarted.stdout is not None
        assert [next(restarted.stdout) for _ in range(20)] == ["ready\n"] + ["right\n"] * 19
        restarted.kill()
    assert survivor.poll() is None
    survivor.kill()
    survivor.communicate()

# SPDX-License-Identifier: Apache-2.0
"""Pieces of far files, kept on a disk of this machine.

Files are cut into chunks of 1 MiB. Any number of processes and jobs may share the folder: a chunk
is written under a name of its own and then renamed, ends with its checksum, and is checked when a
process first reads it, so a process may be killed at any moment. Chunks that were not read for the
longest time are deleted first. Nothing depends on a chunk being there.
"""

import contextlib
import hashlib
import os
import shutil
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from absl import logging

from tfjax_batches.errors import ConfigError

Fetch = Callable[[int, int], bytes]
"""Takes the first byte of a range and the byte after the last, returns the bytes."""

CHUNK_BYTES = 2**20

_CHECKSUM_BYTES = 4
_USED_AGAIN_SECONDS = 60.0  # a chunk is marked as read at most once in so long
# Of the budget: what a process writes before it looks at the folder again, from which size on it
# then deletes chunks, and what it keeps. Other processes write too, and files of killed ones are
# deleted as the oldest ones.
_UNSEEN_SHARE, _FULL_SHARE, _KEPT_SHARE = 0.01, 0.9, 0.8


class ChunkCache:
    """A folder of chunks. Safe to use from many threads.

    Args:
        folder: Any folder on a disk of this machine; made where it is missing.
        max_bytes: Bytes of all chunks in it, about.
    """

    def __init__(self, folder: str, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._unseen_bytes = max_bytes  # written since the folder was looked at: look at once
        self._checked: set[str] = set()
        self._fetching: dict[str, Future[bytes]] = {}
        self._is_writable = True
        self._lock = threading.Lock()

    def read(self, file_key: str, size: int, start: int, end: int, fetch: Fetch) -> bytes:
        """Return the bytes of a range of a file, from the folder or else by `fetch`.

        Args:
            file_key: A text that is another one where the file has another content.
            size: Bytes of the file.
            start: First byte.
            end: The byte after the last, at most `size`.
            fetch: Reads ranges of the file; they begin and end with a chunk.
        """
        stem = os.path.join(self._folder, _digest(file_key))
        parts = []
        for number in range(start // CHUNK_BYTES, -(-end // CHUNK_BYTES)):
            first, last = number * CHUNK_BYTES, min((number + 1) * CHUNK_BYTES, size)
            within = slice(max(start, first) - first, min(end, last) - first)
            path = os.path.join(stem, str(number))
            part = self._load(path, last - first, within)
            parts.append(self._fetch(path, first, last, fetch)[within] if part is None else part)
        return b"".join(parts)

    def copy_of(self, file_key: str, size: int, copy: Callable[[str], object]) -> str:
        """Return the path of a copy of a whole file, for readers that need a path.

        Args:
            file_key: As for `read`.
            size: Bytes of the file.
            copy: Writes the file to a path.

        Raises:
            OSError: The copy cannot be written, or has another size.
        """
        path = os.path.join(self._folder, f"{_digest(file_key)}.file")
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_size == size:
                os.utime(path)
                return path
        self._make_room(size)
        os.makedirs(self._folder, exist_ok=True)
        temporary = f"{path}.{uuid.uuid4().hex}"
        try:
            copy(temporary)
            if (copied := os.stat(temporary).st_size) != size:
                raise OSError(f"a copy has {copied} of {size} bytes")
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                os.remove(temporary)
        return path

    def _load(self, path: str, size: int, within: slice) -> bytes | None:
        """Return a part of a chunk of so many bytes; None where it is not there, or is damaged."""
        try:
            with open(path, "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                if path in self._checked and status.st_size == size + _CHECKSUM_BYTES:
                    data = os.pread(file.fileno(), within.stop - within.start, within.start)
                else:
                    stored = file.read()
                    if stored != _with_checksum(stored[:size]):
                        os.remove(path)
                        return None
                    self._checked.add(path)
                    data = stored[within]
            if time.time() - status.st_mtime > _USED_AGAIN_SECONDS:
                os.utime(path)
        except OSError:
            return None
        return data

    def _fetch(self, path: str, first: int, last: int, fetch: Fetch) -> bytes:
        """Return a chunk from afar, and keep it; of threads that want the same, one fetches it."""
        with self._lock:
            if is_mine := (future := self._fetching.get(path)) is None:
                future = self._fetching[path] = Future()
        if not is_mine:
            return future.result()
        try:
            found = self._load(path, last - first, slice(0, last - first))
            data = fetch(first, last) if found is None else found
            if found is None and len(data) == last - first:
                self._store(path, data)
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            self._fetching.pop(path)
        future.set_result(data)
        return data

    def _store(self, path: str, data: bytes) -> None:
        if not self._is_writable:
            return
        temporary = f"{path}.{uuid.uuid4().hex}"
        try:
            self._make_room(len(data))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(_with_checksum(data))
            os.replace(temporary, path)
        except OSError as error:
            self._is_writable = False
            logging.warning(
                "tfjax_batches: %s cannot be written, so what is read from afar is not kept any "
                "more: %s",
                self._folder,
                error,
            )
            with contextlib.suppress(OSError):
                os.remove(temporary)

    def _make_room(self, num_bytes: int) -> None:
        """Delete the chunks that were not read for the longest time, where there are too many."""
        with self._lock:
            self._unseen_bytes += num_bytes
            if self._unseen_bytes < _UNSEEN_SHARE * self._max_bytes:
                return
            self._unseen_bytes = 0
        files = sorted(_find_files(self._folder))
        total = sum(size for _, size, _ in files)
        if total <= _FULL_SHARE * self._max_bytes:
            return
        for _, size, path in files:
            if total <= _KEPT_SHARE * self._max_bytes:
                return
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                os.remove(path)
            total -= size


def open_cache(folder: str | None, max_bytes: int | None) -> ChunkCache | None:
    """Return the cache in a folder; None: there is no folder.

    Args:
        folder: Any folder on a disk of this machine.
        max_bytes: Bytes of all chunks in it. None: half of what is free on its disk, and of what it
            holds.
    """
    if folder is None:
        return None
    folder = os.path.abspath(os.path.expanduser(folder))
    if max_bytes is None:
        try:
            os.makedirs(folder, exist_ok=True)
            held = sum(size for _, size, _ in _find_files(folder))
            max_bytes = (shutil.disk_usage(folder).free + held) // 2
        except OSError as error:
            raise ConfigError(
                f"cache_dir must be a folder that can be written; {folder} is not: {error}. "
                "Name another."
            ) from error
    return ChunkCache(folder, max_bytes)


def _find_files(folder: str) -> Iterator[tuple[float, int, str]]:
    """Yield the time at which each file was last marked, its size and its path."""
    for parent, _, names in os.walk(folder):
        for path in (os.path.join(parent, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path)
                yield status.st_mtime, status.st_size, path


def _digest(file_key: str) -> str:
    return hashlib.sha256(file_key.encode()).hexdigest()[:32]


def _with_checksum(data: bytes) -> bytes:
    return data + zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "little")

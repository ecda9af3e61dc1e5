# SPDX-License-Identifier: Apache-2.0
"""Bytes of files read in ranges: on TensorFlow's file systems, and on network mounts.

The number of requests is what costs there: spans near each other are read at once, and many reads
wait at the same time. A read that fails, or that gives too little, is tried again.
"""

import functools
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from absl import logging

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.chunk_cache import ChunkCache
from tfjax_batches.reading.file_errors import unreadable_file
from tfjax_batches.reading.open_files import OpenFiles
from tfjax_batches.reading.read_pool import ReadPool
from tfjax_batches.reading.storage import FILE_ERRORS, file_stat, is_lasting, is_remote, open_file

T = TypeVar("T")

# tf.io.gfile reads at least 512 KiB at a time, so a gap of half of that costs nothing.
_GAP_BYTES = 2**18
_RANGE_BYTES = 2**23  # beyond this, two parallel reads are faster than one
# Seconds before each further try, at most; a random part of them, at least a half, so that many
# processes do not come back at once.
_PAUSES = (0.2, 0.4, 0.8, 1.6, 3.2)


class RangeFiles:
    """Reads bytes of some files. Safe to use from many threads.

    Args:
        paths: The files.
        pool: The threads that wait for them.
        cache: Keeps what is read. None: nothing is kept.
    """

    def __init__(
        self, paths: Sequence[str], pool: ReadPool, cache: ChunkCache | None = None
    ) -> None:
        self._paths = paths
        self._pool = pool
        self._cache = cache
        self._stats: dict[int, tuple[int, int]] = {}  # size and modification time
        # A remote file is opened for each read: its position cannot be shared by threads.
        self._local = None if is_remote(paths[0]) else OpenFiles(functools.partial(_open, paths))
        self._logged: set[int] = set()
        self._lock = threading.Lock()

    def read(self, files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[bytes]:
        """Return n spans of bytes. See `MappedFiles.read`."""
        data = [b""] * len(files)

        def read_range(group: Int64Array) -> None:
            first, last = int(starts[group[0]]), int(ends[group[-1]])
            buffer = self._read_range(int(files[group[0]]), first, last)
            # As lists: a step of Python for each record is most of the work where they are tiny.
            spans = (starts[group] - first).tolist(), (ends[group] - first).tolist()
            for member, start, end in zip(group.tolist(), *spans, strict=True):
                data[member] = buffer[start:end]

        self._pool.map(read_range, plan_ranges(files, starts, ends))
        return data

    def _read_range(self, file: int, start: int, end: int) -> bytes:
        """Return the bytes of a range, fewer where the file ends."""
        if self._cache is None:
            return self._read_patiently(file, start, end)
        if (stat := self._stats.get(file)) is None:
            look = functools.partial(file_stat, self._paths[file])
            stat = self._stats[file] = self._try(file, "its size", look)
        key = f"{self._paths[file]} {stat}"
        fetch = functools.partial(self._read_patiently, file)
        return self._cache.read(key, stat[0], start, min(end, stat[0]), fetch)

    def _read_patiently(self, file: int, start: int, end: int) -> bytes:
        """Return the bytes of a range, fewer where the file ends; see `_try`."""
        read = functools.partial(self._read_once, file, start, end)
        return self._try(file, f"bytes {start} to {end}", read)

    def _try(self, file: int, what: str, read: Callable[[], T]) -> T:
        """Return what a read returns; try again on errors that pass."""
        for pause in (*_PAUSES, None):
            try:
                return read()
            except FILE_ERRORS as error:
                if pause is None or is_lasting(error):
                    reason = f"{what}: {error or type(error).__name__}"
                    raise unreadable_file(self._paths[file], reason) from error
                self._log(file, error)
                time.sleep(pause * random.uniform(0.5, 1))
        raise AssertionError("the last pause is None")

    def _read_once(self, file: int, start: int, end: int) -> bytes:
        path = self._paths[file]
        if self._local is None:
            with open_file(path) as remote:
                remote.seek(start)
                data: bytes = remote.read(end - start)
        else:
            data = os.pread(self._local[file].fileno(), end - start, start)
        if len(data) < end - start and start + len(data) < file_stat(path)[0]:
            raise OSError(f"a read gave {len(data)} of {end - start} bytes")
        return data

    def _log(self, file: int, error: Exception) -> None:
        """Log the first error of each file."""
        with self._lock:
            is_new = file not in self._logged
            self._logged.add(file)
        if is_new:
            logging.warning(
                "tfjax_batches: a read of %s failed and is tried again, as others of this file "
                "may be: %s",
                self._paths[file],
                error,
            )


def _open(paths: Sequence[str], file: int) -> Any:
    return open_file(paths[file])


def plan_ranges(files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[Int64Array]:
    """Return groups of spans, int64[n] as in `read`, that are each read at once: indices by start.

    Spans do not overlap, unless they are equal.

    Example:
        >>> far = 2**30
        >>> groups = plan_ranges(*np.array([[3, 3, 3], [far, 0, 40], [far + 9, 40, 50]]))
        >>> [group.tolist() for group in groups]
        [[1, 2], [0]]
    """
    if not len(files):
        return []
    order = np.lexsort((starts, files))
    files, starts, ends = files[order], starts[order], ends[order]
    is_far = (files[1:] != files[:-1]) | (starts[1:] > ends[:-1] + _GAP_BYTES)
    edges = np.flatnonzero(np.r_[True, is_far, True]).tolist()
    groups = []
    for first, stop in itertools.pairwise(edges):
        while first < stop:
            # As many as fit, at least one.
            fit = np.searchsorted(ends[first:stop], starts[first] + _RANGE_BYTES, side="right")
            last = first + max(1, int(fit))
            groups.append(order[first:last])
            first = last
    return groups

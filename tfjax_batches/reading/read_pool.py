# SPDX-License-Identifier: Apache-2.0
"""The threads of a loader that wait for storage, many reads at a time."""

import functools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 32


class ReadPool:
    """Runs reads in threads that start with the first one and end with the pool.

    Args:
        threads: Reads at a time. None: 32.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.num_threads = threads or _THREADS
        self._here = threading.local()

    def submit(self, read: Callable[[], R]) -> "Future[R]":
        """Start a read; return its future."""
        return self._executor.submit(read)

    def map(self, read: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return what `read` returns for each item, in order."""
        items = list(items)
        # A thread of the pool that waits for others could wait for ever.
        if len(items) < 2 or hasattr(self._here, "is_of_pool"):
            return [read(item) for item in items]
        return list(self._executor.map(read, items))

    @functools.cached_property
    def _executor(self) -> ThreadPoolExecutor:
        here = self._here
        return ThreadPoolExecutor(
            self.num_threads, "tfjax_batches-read", lambda: setattr(here, "is_of_pool", True)
        )

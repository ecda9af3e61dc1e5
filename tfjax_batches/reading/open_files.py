# SPDX-License-Identifier: Apache-2.0
"""Files that stay open between reads, fewer than a process may hold."""

import resource
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OpenFiles(Generic[T]):
    """Opens each file on first use and keeps as many open as `limit` allows.

    Safe to use from many threads at a time. A file that is let go is closed when the last user
    of the object has dropped it.

    Args:
        open_file: Opens the file of a number.
        limit: Files to keep. None: a quarter of the descriptors that this process may have, so
            that a few loaders and the rest of the program fit too. (A memory map holds a
            descriptor as well.)
    """

    def __init__(self, open_file: Callable[[int], T], limit: int | None = None) -> None:
        self._open_file = open_file
        self._limit = _quarter_of_descriptors() if limit is None else limit
        self._files: dict[int, T] = {}
        self._lock = threading.Lock()

    def __getitem__(self, number: int) -> T:
        if (file := self._files.get(number)) is not None:  # the hot path takes no lock
            return file
        with self._lock:
            if (file := self._files.get(number)) is None:
                if len(self._files) >= self._limit:
                    # The oldest: of files that are used at random none is better to let go.
                    del self._files[next(iter(self._files))]
                file = self._files[number] = self._open_file(number)
        return file

    def all_open(self) -> list[T]:
        """Return the files that are open now."""
        with self._lock:
            return list(self._files.values())


def _quarter_of_descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # No limit, or one beyond the maps that Linux gives a process by default (65,530).
    return 2**14 if soft == resource.RLIM_INFINITY else max(1, min(soft // 4, 2**14))

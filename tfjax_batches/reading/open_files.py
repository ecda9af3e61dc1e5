# SPDX-License-Identifier: Apache-2.0
"""Files that stay open between reads, within the number that a process may have open."""

import resource
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OpenFiles(Generic[T]):
    """Opens each file on first use, by its number, and keeps as many open as a limit allows.

    The limit is a quarter of the descriptors that this process may have, which leaves some for
    other loaders and the rest of the program. (A memory map holds a descriptor too.) Safe to use
    from many threads. A file that is dropped is closed once no caller uses it.
    """

    def __init__(self, open_file: Callable[[int], T]) -> None:
        self._open_file = open_file
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            descriptors = 2**16
        self._limit = min(descriptors // 4, 2**14)  # Linux gives a process 65,530 memory maps
        self._files: dict[int, T] = {}
        self._lock = threading.Lock()

    def __getitem__(self, number: int) -> T:
        if (file := self._files.get(number)) is not None:  # the hot path takes no lock
            return file
        with self._lock:
            if (file := self._files.get(number)) is None:
                if len(self._files) >= self._limit:
                    # The oldest: under random access no file is a better choice.
                    del self._files[next(iter(self._files))]
                file = self._files[number] = self._open_file(number)
        return file

    def all_open(self) -> list[T]:
        """Return the files that are open now."""
        with self._lock:
            return list(self._files.values())

# SPDX-License-Identifier: Apache-2.0
"""The bounded queue between the thread that makes batches and the consumer.

Holds at all times: batches leave in the order in which they came; the error or end of reading
follows the last of them, and is raised at every later call; what waits is within `depth` and
`max_bytes`. Once shut it holds nothing and accepts nothing.
"""

import threading
from collections import deque
from types import TracebackType
from typing import Any, Generic, TypeVar

import jax

from tfjax_batches.errors import IteratorClosedError
from tfjax_batches.placing.array_shards import local_bytes

B = TypeVar("B")


class Buffer(Generic[B]):
    """A queue of placed batches, for one producer and any number of consumers.

    Args:
        depth: Batches that may wait.
        max_bytes: Bytes of device memory that the waiting batches may take on this process. The
            next batch is assumed to be as large as the one before. The first batch, and any after
            one larger than `max_bytes`, is admitted only while a consumer is blocked on it. None:
            no limit.
    """

    def __init__(self, depth: int, max_bytes: int | None) -> None:
        self._depth = depth
        self._max_bytes = max_bytes
        self._last_bytes: int | None = None
        self._entries: deque[tuple[B, Any, int]] = deque()  # batch, state after it, its bytes
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._waiting_consumers = 0
        self._shut = False
        self._changed = threading.Condition()

    def wait_for_room(self) -> bool:
        """Wait until there is room for a batch; return False once the buffer is shut."""
        with self._changed:
            self._changed.wait_for(lambda: self._shut or self._has_room())
            return not self._shut

    def put(self, batch: B, state: Any) -> None:
        """Add a batch, and the state after it. The caller has waited for room."""
        num_bytes = 0 if self._max_bytes is None else _device_bytes(batch)
        with self._changed:
            if not self._shut:
                self._entries.append((batch, state, num_bytes))
                self._last_bytes = num_bytes
                self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Add the error that follows the last batch; `StopIteration` for the end."""
        with self._changed:
            if not self._shut:
                self._error, self._traceback = error, error.__traceback__
                self._changed.notify_all()

    def take(self) -> tuple[B, Any]:
        """Wait for the next batch and its state, or raise the error that comes in its place.

        Raises:
            IteratorClosedError: The buffer is shut, or was while this waited.
        """
        with self._changed:
            if not self._has_next():
                self._waiting_consumers += 1
                self._changed.notify_all()
                try:
                    self._changed.wait_for(self._has_next)
                finally:
                    self._waiting_consumers -= 1
            if self._entries:
                self._changed.notify_all()
                batch, state, _ = self._entries.popleft()
                return batch, state
            if isinstance(self._error, StopIteration):
                # Not that one: with its traceback it would keep the iterator alive, and its files.
                raise StopIteration
            if self._error is not None:
                # Reset the traceback, which otherwise grows with each raise.
                raise self._error.with_traceback(self._traceback)
            raise IteratorClosedError(
                "An iterator gives batches until it is closed; this one is closed. "
                "Make another with iter(loader)."
            )

    def shut(self) -> None:
        """Drop all batches, and wake all threads that wait."""
        with self._changed:
            self._shut = True
            self._entries.clear()
            self._error = self._traceback = None
            self._changed.notify_all()

    def _has_next(self) -> bool:
        return bool(self._entries) or self._error is not None or self._shut

    def _has_room(self) -> bool:
        if self._waiting_consumers and not self._entries:
            return True
        if len(self._entries) >= self._depth:
            return False
        if self._max_bytes is None:
            return True
        if self._last_bytes is None:
            return False
        waiting = sum(num_bytes for *_, num_bytes in self._entries)
        return waiting + self._last_bytes <= self._max_bytes


def _device_bytes(batch: Any) -> int:
    """Return the memory that a pytree takes on the devices of this process, replicas counted."""
    return sum(local_bytes(leaf) for leaf in jax.tree.leaves(batch) if isinstance(leaf, jax.Array))

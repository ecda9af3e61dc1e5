# SPDX-License-Identifier: Apache-2.0
"""The bounded queue between the thread that makes batches and the consumer.

Holds at all times: entries leave in the order in which they came; the error or end of the source
comes after all of them, and again ever after; what waits is within `depth` and `max_bytes`. Once
shut it holds nothing and takes nothing.
"""

import dataclasses
import math
import threading
from collections import deque
from types import TracebackType
from typing import Any, Generic, TypeVar

import jax

from tfjax_batches.errors import IteratorClosedError

B = TypeVar("B")


@dataclasses.dataclass(frozen=True, slots=True)
class QueuedBatch(Generic[B]):
    """A placed batch.

    Attributes:
        batch: What the consumer gets.
        state: State of the source after this batch.
        num_bytes: What it takes of `max_bytes`; 0 where that is None.
    """

    batch: B
    state: Any
    num_bytes: int


class Buffer(Generic[B]):
    """See the head of this file.

    Args:
        depth: Entries that may wait.
        max_bytes: Bytes of them that may wait; None: no limit. The next entry is taken to be as
            large as the largest so far. One that is too large to wait, or the first, is let in
            when the consumer waits for it.
    """

    def __init__(self, depth: int, max_bytes: int | None) -> None:
        self._depth = depth
        self._max_bytes = max_bytes
        self._largest_bytes: int | None = None
        self._entries: deque[QueuedBatch[B]] = deque()
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._consumer_waits = False
        self._shut = False
        self._changed = threading.Condition()

    def wait_for_room(self) -> bool:
        """Wait until an entry may be made; False when none is wanted any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._shut or self._has_room())
            return not self._shut

    def put(self, batch: B, state: Any) -> None:
        """Add a batch, for which there is room, and the state after it."""
        entry = QueuedBatch(batch, state, 0 if self._max_bytes is None else device_bytes(batch))
        with self._changed:
            if not self._shut:
                self._entries.append(entry)
                self._largest_bytes = max(self._largest_bytes or 0, entry.num_bytes)
                self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Add the last thing to come: an error, `StopIteration` for the end."""
        with self._changed:
            if not self._shut:
                self._error, self._traceback = error, error.__traceback__
                self._changed.notify_all()

    def take(self) -> QueuedBatch[B]:
        """Wait for the next entry and return it, or raise the error in its place.

        Raises:
            IteratorClosedError: The buffer is shut, before or meanwhile.
        """
        with self._changed:
            if not self._has_next():
                self._consumer_waits = True
                self._changed.notify_all()
                try:
                    self._changed.wait_for(self._has_next)
                finally:
                    self._consumer_waits = False
            if self._entries:
                self._changed.notify_all()
                return self._entries.popleft()
            if self._error is not None:
                # With its own traceback each time, not with those of earlier raises added.
                raise self._error.with_traceback(self._traceback)
            raise IteratorClosedError(
                "An iterator gives batches until it is closed; this one is closed. "
                "Make another with iter(loader)."
            )

    def shut(self) -> None:
        """Drop what waits, and wake whoever waits."""
        with self._changed:
            self._shut = True
            self._entries.clear()
            self._error = self._traceback = None
            self._changed.notify_all()

    def _has_next(self) -> bool:
        return bool(self._entries) or self._error is not None or self._shut

    def _has_room(self) -> bool:
        if self._consumer_waits and not self._entries:
            return True
        if len(self._entries) >= self._depth:
            return False
        if self._max_bytes is None:
            return True
        if self._largest_bytes is None:
            return False
        waiting = sum(entry.num_bytes for entry in self._entries)
        return waiting + self._largest_bytes <= self._max_bytes


def device_bytes(batch: Any) -> int:
    """Return the memory that a pytree takes on this process's devices, replicas counted."""
    total = 0
    for leaf in jax.tree.leaves(batch):
        if isinstance(leaf, jax.Array):
            shard = math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
            total += len(leaf.sharding.addressable_devices) * shard
    return total

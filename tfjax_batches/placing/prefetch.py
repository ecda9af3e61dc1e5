# SPDX-License-Identifier: Apache-2.0
"""The double buffer: a thread that makes batches while the consumer uses the ones before.

Holds at all times: items come in the order of the source, an error of the source comes at its
place and again ever after, and no more than `depth` made items wait. The thread makes no
collective and knows nothing of what it carries.
"""

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from tfjax_batches.errors import IteratorClosedError

T = TypeVar("T")

_JOIN_SECONDS = 2.0


class Prefetcher(Iterator[T], Generic[T]):
    """Iterates over `source` from a thread, up to `depth` items ahead.

    Args:
        source: Makes the items; used by the thread alone. With depth 0 there is no thread, and
            `next` makes the item.
        depth: Made items that may wait for the consumer.
    """

    def __init__(self, source: Iterator[T], depth: int) -> None:
        self._source = source
        self._channel = _Channel[T](max(depth, 1))
        self._finalizer: weakref.finalize[..., Prefetcher[T]] | None = None
        if depth > 0:
            # Not a bound method: the thread must not keep a dropped Prefetcher alive. A daemon:
            # at exit the interpreter first runs finalizers and then waits for no daemon, where
            # it would wait for another thread before running them.
            thread = threading.Thread(
                target=_produce,
                args=(source, self._channel),
                name="tfjax_batches-prefetch",
                daemon=True,
            )
            self._finalizer = weakref.finalize(self, _shut, self._channel, thread)
            thread.start()

    def __next__(self) -> T:
        if self._finalizer is None:
            _produce_one(self._source, self._channel)
        return self._channel.take()

    def close(self) -> None:
        """End the thread and drop what waits. Safe to call again."""
        self._channel.shut()
        if self._finalizer is not None:
            self._finalizer()


class _Channel(Generic[T]):
    """What passes between the thread and the consumer."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._items: deque[T] = deque()
        self._error: BaseException | None = None  # StopIteration too: the end is in order
        self._shut = False
        self._changed = threading.Condition()

    def wait_for_room(self) -> bool:
        """Wait until an item may be made; False when none is wanted any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._shut or len(self._items) < self._depth)
            return not self._shut and self._error is None

    def put(self, item: T) -> None:
        with self._changed:
            if not self._shut:
                self._items.append(item)
                self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def take(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._error is not None or self._shut)
            if self._items:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            if self._error is not None and not self._shut:
                raise self._error
            raise IteratorClosedError(
                "An iterator gives batches until it is closed; this one is closed. "
                "Make another with iter(loader)."
            )

    def shut(self) -> None:
        with self._changed:
            self._shut = True
            self._items.clear()
            self._changed.notify_all()


def _produce(source: Iterator[T], channel: _Channel[T]) -> None:
    while _produce_one(source, channel):
        pass


def _produce_one(source: Iterator[T], channel: _Channel[T]) -> bool:
    """Make one item where there is room; False when no further one will be wanted."""
    if not channel.wait_for_room():
        return False
    try:
        channel.put(next(source))
    # Whatever ends the source belongs to the consumer, who gets it at its place.
    except BaseException as error:
        channel.fail(error)
        return False
    return True


def _shut(channel: _Channel[T], thread: threading.Thread) -> None:
    channel.shut()
    # The finalizer of a dropped iterator may run in any thread, its own too.
    if thread is not threading.current_thread():
        thread.join(_JOIN_SECONDS)

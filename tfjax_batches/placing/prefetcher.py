# SPDX-License-Identifier: Apache-2.0
"""The double buffer: the next batches are read and placed while the consumer uses earlier ones.

    host batches ─► read ─► place, once there is room ─► buffer ─► next

Holds at all times:

* `next` gives what a loop over the host batches would: the same batches, error and end, in order.
* At most `depth` placed batches wait, of at most `max_bytes` in all; one more is read on the host.
* `state` is that of the batch last delivered, never of one made ahead.
* The thread starts no collective: all processes would have to start it in the same order.

The thread itself is in `prefetch_thread`.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from absl import logging

from tfjax_batches.placing.buffer import Buffer
from tfjax_batches.placing.prefetch_thread import Producer
from tfjax_batches.placing.stats import InputBoundAlarm, Phase, Progress, Stats

H = TypeVar("H")
B = TypeVar("B")


class Prefetcher(Iterator[B], Generic[H, B]):
    """Iterates over placed batches, made up to `depth` ahead in a thread.

    With depth 0 `next` itself reads and places, with the same results. It is closed by `close`, at
    the end of a `with` block, when the last reference is dropped, and at interpreter exit.

    Args:
        host_batches: Used by one thread at a time, and dropped at the end.
        place: Turns a host batch into a batch on the devices.
        depth: Placed batches that may wait for the consumer.
        max_bytes: Device memory of this process that those may take; see `Buffer`. None: no limit.
        get_state: Returns the state after the batch that was read last. None: the state is None.
        cancel: Makes a `next(host_batches)` in progress in another thread return something. None:
            it returns by itself.
        stall_seconds: A warning is logged each time `next` has waited this long. None: never.

    Example:
        >>> with Prefetcher(iter(range(3)), str, depth=2) as batches:
        ...     list(batches)
        ['0', '1', '2']
    """

    def __init__(
        self,
        host_batches: Iterator[H],
        place: Callable[[H], B],
        *,
        depth: int,
        max_bytes: int | None = None,
        get_state: Callable[[], Any] | None = None,
        cancel: Callable[[], None] | None = None,
        stall_seconds: float | None = None,
    ) -> None:
        get_state = get_state or (lambda: None)
        self._progress = Progress(get_state())
        self._alarm = InputBoundAlarm()
        self._buffer = Buffer[B](depth, max_bytes)
        self._producer = Producer(
            host_batches,
            place,
            get_state,
            cancel or (lambda: None),
            self._buffer,
            self._progress,
            in_thread=depth > 0,
            stall_seconds=stall_seconds,
        )

    @property
    def state(self) -> Any:
        """What `get_state` returned after the batch last delivered; at first, before any."""
        return self._progress.state

    @property
    def stats(self) -> Stats:
        """What was delivered so far, and where the time went; `examples` is not known here."""
        return self._progress.stats()

    def __next__(self) -> B:
        """Return the next batch; an error of reading stands in the place of its batch.

        Raises:
            StopIteration: There are no more batches.
            IteratorClosedError: `close` was called.
        """
        with self._progress.timed(Phase.WAIT):
            if self._producer.thread is None:
                self._producer.produce_one()
            batch, self._progress.state = self._buffer.take()
        self._progress.steps += 1
        if advice := self._alarm.check(self._progress.stats()):
            logging.warning("tfjax_batches: %s", advice)
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if producer := getattr(self, "_producer", None):  # else __init__ failed
            producer.request_stop()

    def close(self) -> None:
        """End the thread and drop the batches that wait. Any thread may call it, repeatedly."""
        self._producer.end()

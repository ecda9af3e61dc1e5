# SPDX-License-Identifier: Apache-2.0
"""The double buffer: a thread that reads and places batches while the consumer uses earlier ones.

    source ─► read ─► place, once there is room ─► buffer ─► next

Holds at all times:

* `next` gives what a loop over the source would: the same batches, error and end, in order.
* At most `depth` placed batches wait, of at most `max_bytes` in all; one more is read on the host.
* `state` speaks of the batch last delivered, never of one made.
* The thread makes no collective: all processes would have to make it in one order.

The thread is a daemon: for any other the interpreter waits at exit, before it tells anybody to
end. But a daemon that is in C++ when the interpreter goes away is killed there, which aborts or
hangs the process. So `atexit` ends it in time: our handler, registered after those of JAX and
TensorFlow, runs before them. The thread drops the source itself as it ends, and with it the threads
of tf.data, which call into Python as well.
"""

import atexit
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from absl import logging

from tfjax_batches.errors import IteratorClosedError
from tfjax_batches.placing.buffer import Buffer
from tfjax_batches.placing.stats import InputBoundAlarm, Phase, Progress, Stats
from tfjax_batches.placing.watchdog import Watchdog

H = TypeVar("H")
B = TypeVar("B")

# `close` is over in two seconds, whatever the source does.
_JOIN_SECONDS = 1.5
_THREAD_NAME = "tfjax_batches-prefetch"


class Prefetcher(Iterator[B], Generic[H, B]):
    """Iterates over the placed batches of a source, made up to `depth` ahead in a thread.

    With depth 0 `next` itself reads and places, with the same results. Leaving a `with` block,
    dropping the last reference and the exit of the interpreter close it too.

    Args:
        source: Makes the host batches. Used by one thread at a time, and dropped at the end.
        place: Makes a batch of a host batch.
        depth: Placed batches that may wait for the consumer.
        max_bytes: Device memory of this process that those may take; see `Buffer`. None: no limit.
        get_state: Called after each read: the state after that batch. None: it is None.
        cancel: Makes a `next(source)` in progress in another thread return, whatever it returns.
            None: it returns by itself.
        stall_seconds: Each time that `next` has waited so long, a warning is logged. None: never.
        process_index: Named in what is logged.

    Example:
        >>> with Prefetcher(iter(range(3)), str, depth=2) as batches:
        ...     list(batches)
        ['0', '1', '2']
    """

    def __init__(
        self,
        source: Iterator[H],
        place: Callable[[H], B],
        *,
        depth: int,
        max_bytes: int | None = None,
        get_state: Callable[[], Any] | None = None,
        cancel: Callable[[], None] | None = None,
        stall_seconds: float | None = None,
        process_index: int = 0,
    ) -> None:
        get_state = get_state or _nothing
        self._process_index = process_index
        self._progress = Progress(get_state())
        self._alarm = InputBoundAlarm()
        self._buffer = Buffer[B](depth, max_bytes)
        self._producer = _Producer(
            source, place, get_state, cancel or _nothing, self._buffer, self._progress
        )
        self._producer.start(depth > 0, stall_seconds, process_index)

    @property
    def state(self) -> Any:
        """What `get_state` said after the batch last delivered; at first, before any."""
        return self._progress.state

    @property
    def stats(self) -> Stats:
        """What was delivered so far, and where the time went; `examples` is not known here."""
        return self._progress.stats()

    def __next__(self) -> B:
        with self._progress.phase(Phase.WAIT):
            if self._producer.thread is None:
                self._producer.produce_one()
            entry = self._buffer.take()
        self._progress.state = entry.state
        self._progress.steps += 1
        if advice := self._alarm.check(self._progress.stats()):
            logging.warning("tfjax_batches: process %d: %s", self._process_index, advice)
        return entry.batch

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
        if maker := getattr(self, "_producer", None):  # else __init__ failed
            maker.request_stop()

    def close(self) -> None:
        """End the thread and drop the batches that wait. Safe to call again, in any thread."""
        self._producer.end()


class _Producer(Generic[H, B]):
    """Makes the entries. It must not know the Prefetcher, which then could not be dropped."""

    def __init__(
        self,
        source: Iterator[H],
        place: Callable[[H], B],
        get_state: Callable[[], Any],
        cancel: Callable[[], None],
        buffer: Buffer[B],
        progress: Progress,
    ) -> None:
        self.thread: threading.Thread | None = None
        self._watchdog: Watchdog | None = None
        self._source: Iterator[H] | None = source
        self._place = place
        self._get_state = get_state
        self._cancel = cancel
        self._buffer = buffer
        self._progress = progress

    def start(self, in_thread: bool, stall_seconds: float | None, process_index: int) -> None:
        progress = self._progress
        if stall_seconds is not None:
            self._watchdog = Watchdog(
                stall_seconds,
                lambda: progress.waiting_since,
                lambda seconds: _log_stall(progress, seconds, process_index),
            )
        if in_thread:
            self.thread = threading.Thread(target=self._run, name=_THREAD_NAME, daemon=True)
        atexit.register(self.end)
        if self.thread is not None:
            self.thread.start()

    def produce_one(self) -> bool:
        """Make the next entry; False when there is none, or none is wanted."""
        # No local may name the source: the traceback of an error would keep it alive.
        if self._source is None:
            return False
        try:
            with self._progress.phase(Phase.READ):
                host_batch = next(self._source)
                state = self._get_state()
            # Read before there is room, so that the copy to the device starts when there is.
            with self._progress.phase(Phase.FULL):
                wanted = self.thread is None or self._buffer.wait_for_room()
            if wanted:
                with self._progress.phase(Phase.PLACE):
                    self._buffer.put(self._place(host_batch), state)
                return True
        # Only without a thread: the user interrupts this call, not the batches. But a batch may be
        # half made, and must not be left out in silence.
        except KeyboardInterrupt:
            self._buffer.fail(
                IteratorClosedError(
                    "An iterator gives batches until it is closed; this one was interrupted while "
                    "it made one. batches.set_state(batches.get_state()) goes on with that batch."
                )
            )
            self._drop_source()
            raise
        # Whatever ends the source belongs to the consumer, who gets it in its place.
        except BaseException as error:
            self._buffer.fail(error)
        self._drop_source()
        return False

    def request_stop(self) -> None:
        """End soon, without waiting: a finalizer may run in any thread, holding any lock."""
        self._buffer.shut()
        if self.thread is None:
            self._drop_source()

    def end(self) -> None:
        """End, and wait for it a while."""
        self._buffer.shut()
        self._cancel()
        if self._watchdog is not None:
            self._watchdog.end()
        thread = self.thread or self._start_dropping()
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            return
        thread.join(_JOIN_SECONDS)
        if thread.is_alive():
            logging.warning(
                "tfjax_batches: an iterator was closed while its source was busy (stage %r), and "
                "its thread has not ended in %.1f s; it ends when the source returns.",
                self._progress.stage.value,
                _JOIN_SECONDS,
            )

    def _run(self) -> None:
        while self.produce_one():
            pass

    def _start_dropping(self) -> threading.Thread | None:
        """Drop the source of a synchronous iterator, which may last, in a thread that may."""
        if self._source is None:
            return None
        thread = threading.Thread(target=self._drop_source, name=_THREAD_NAME, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # at exit, where some versions of Python start no thread any more
            self._drop_source()
        return thread

    def _drop_source(self) -> None:
        if self._source is None:
            return  # also when the interpreter is half gone, and with it what is named below
        # For tf.data this waits until no thread of it is in Python any more.
        self._source, self._get_state, self._cancel = None, _nothing, _nothing
        if self._watchdog is not None:
            self._watchdog.request_stop()
        atexit.unregister(self.end)


def _log_stall(progress: Progress, seconds: float, process_index: int) -> None:
    logging.warning(
        "tfjax_batches: process %d has waited %s s for batch %d of this iterator, at state %r; "
        "the stage that lasts is %r. It goes on waiting. stall_seconds says how often this is "
        "told, None: never.",
        process_index,
        f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}",
        progress.steps,
        progress.state,
        progress.stage.value,
    )


def _nothing() -> None:
    pass

# SPDX-License-Identifier: Apache-2.0
"""The thread of the double buffer, which reads and places batches, and how it ends.

The thread is a daemon, because at exit the interpreter joins all other threads before it runs
`atexit` handlers. But a daemon that runs C++ code when the interpreter goes away is killed there,
which aborts or hangs the process. So an `atexit` handler ends it in time: it is registered after
those of JAX and TensorFlow and therefore runs before them. The thread itself drops the iterator of
host batches as it ends, and with it the threads of tf.data, which call into Python too.
"""

import atexit
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from absl import logging

from tfjax_batches.errors import IteratorClosedError
from tfjax_batches.placing.buffer import Buffer
from tfjax_batches.placing.stats import Phase, Progress
from tfjax_batches.placing.watchdog import warn_of_stalls

H = TypeVar("H")
B = TypeVar("B")

_JOIN_SECONDS = 1.5  # `close` returns within two seconds, whatever the reading does


class Producer(Generic[H, B]):
    """Fills a buffer with placed batches, in a thread or when `produce_one` is called.

    It holds no reference to the `Prefetcher`, which could not be garbage-collected otherwise. The
    arguments are those of the `Prefetcher`.

    Attributes:
        thread: The thread; None without one.
    """

    def __init__(
        self,
        host_batches: Iterator[H],
        place: Callable[[H], B],
        get_state: Callable[[], Any],
        cancel: Callable[[], None],
        buffer: Buffer[B],
        progress: Progress,
        *,
        in_thread: bool,
        stall_seconds: float | None,
    ) -> None:
        self._host_batches: Iterator[H] | None = host_batches
        self._place = place
        self._get_state = get_state
        self._cancel = cancel
        self._buffer = buffer
        self._progress = progress
        self._ended = threading.Event()
        self._watchdog: threading.Thread | None = None
        if stall_seconds is not None:
            arguments = (progress, stall_seconds, self._ended)
            self._watchdog = _make_thread("watchdog", warn_of_stalls, *arguments)
            self._watchdog.start()
        self.thread = _make_thread("prefetch", self._run) if in_thread else None
        atexit.register(self.end)
        if self.thread is not None:
            self.thread.start()

    def produce_one(self) -> bool:
        """Read and place the next batch; return False when there is none or none is wanted."""
        # No local may name the iterator: the traceback of an error would keep it alive.
        if self._host_batches is None:
            return False
        try:
            with self._progress.timed(Phase.READ):
                host_batch = next(self._host_batches)
                state = self._get_state()
            # Read before there is room, so that the copy to the device starts as soon as there is.
            with self._progress.timed(Phase.FULL):
                wanted = self.thread is None or self._buffer.wait_for_room()
            if wanted:
                with self._progress.timed(Phase.PLACE):
                    self._buffer.put(self._place(host_batch), state)
                return True
        # Without a thread, Ctrl-C interrupts this call. The batch may be half made, and going on
        # would skip it silently.
        except KeyboardInterrupt:
            self._buffer.fail(
                IteratorClosedError(
                    "An iterator gives batches until it is closed; this one was interrupted while "
                    "it made a batch. Call batches.set_state(batches.get_state()) to continue with "
                    "that batch."
                )
            )
            self._drop_host_batches()
            raise
        # The consumer gets every other error, at the place of the batch.
        except BaseException as error:
            self._buffer.fail(error)
        self._drop_host_batches()
        return False

    def request_stop(self) -> None:
        """End soon, without waiting: a finalizer may run in any thread, holding any lock."""
        self._buffer.shut()
        if self.thread is None:
            self._drop_host_batches()

    def end(self) -> None:
        """End, and wait up to 1.5 seconds for the thread; log a warning if it needs longer."""
        self._buffer.shut()
        self._cancel()
        self._ended.set()
        if self._watchdog is not None:
            self._watchdog.join()
        thread = self.thread or self._start_dropping()
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            return
        thread.join(_JOIN_SECONDS)
        if thread.is_alive():
            logging.warning(
                "tfjax_batches: an iterator was closed while it was reading (phase %r), and "
                "its thread has not ended in %.1f s; it ends when that returns.",
                self._progress.phase.value,
                _JOIN_SECONDS,
            )

    def _run(self) -> None:
        while self.produce_one():
            pass

    def _start_dropping(self) -> threading.Thread | None:
        """Without a thread, drop the host batches in one, because that may take long."""
        if self._host_batches is None:
            return None
        thread = _make_thread("prefetch", self._drop_host_batches)
        try:
            thread.start()
        except RuntimeError:  # some versions of Python start no thread at exit
            self._drop_host_batches()
        return thread

    def _drop_host_batches(self) -> None:
        if self._host_batches is None:
            return  # also at interpreter shutdown, when the names below may be gone
        # For tf.data this waits until none of its threads runs Python code.
        self._host_batches, self._get_state, self._cancel = None, lambda: None, lambda: None
        self._ended.set()
        atexit.unregister(self.end)


def _make_thread(name: str, run: Callable[..., object], *arguments: Any) -> threading.Thread:
    name = f"tfjax_batches-{name}"
    return threading.Thread(target=run, name=name, args=arguments, daemon=True)

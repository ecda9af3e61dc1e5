# SPDX-License-Identifier: Apache-2.0
"""Says that something lasts too long, while it lasts."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

OnLate = Callable[[float], None]
"""Told the seconds that have passed, once a period. It must not raise."""


def wait_for(
    changed: threading.Condition,
    predicate: Callable[[], bool],
    period_seconds: float | None,
    on_late: OnLate,
) -> None:
    """Wait for what another thread does. The caller holds the lock of `changed`.

    Args:
        changed: Notified when `predicate` may have become true.
        predicate: What to wait for.
        period_seconds: How often `on_late` is called, without the lock. None: never.
        on_late: Called when it is late.
    """
    start = time.monotonic()
    while not changed.wait_for(predicate, period_seconds):
        changed.release()
        try:
            on_late(time.monotonic() - start)
        finally:
            changed.acquire()


@contextlib.contextmanager
def watch(period_seconds: float | None, on_late: OnLate) -> Iterator[None]:
    """Watch what this thread does itself in a `with` block, from a thread that only sleeps."""
    if period_seconds is None:
        yield
        return
    done = threading.Condition()
    over = False

    def sleep() -> None:
        with done:
            wait_for(done, lambda: over, period_seconds, on_late)

    # A daemon: it is never in C++, where the end of the interpreter would be no good end.
    threading.Thread(target=sleep, name="tfjax_batches-watchdog", daemon=True).start()
    try:
        yield
    finally:
        with done:
            over = True
            done.notify()

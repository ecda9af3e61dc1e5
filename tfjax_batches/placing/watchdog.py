# SPDX-License-Identifier: Apache-2.0
"""Says that something lasts too long, while it lasts."""

import threading
import time
from collections.abc import Callable

# Looks in a period: how much later than that, in parts of it, a first word may come.
_LOOKS = 4


class Watchdog:
    """Looks, from a thread that sleeps meanwhile, whether a wait lasts.

    The thread is a daemon and never in C++, where the end of the interpreter would be no good end.

    Args:
        period_seconds: How often a wait that lasts is told of.
        waiting_since: Returns when the wait began, by `time.perf_counter`; None: nobody waits.
        on_late: Told the seconds since then, once in each period of one wait.
    """

    def __init__(
        self,
        period_seconds: float,
        waiting_since: Callable[[], float | None],
        on_late: Callable[[float], None],
    ) -> None:
        self._period_seconds = period_seconds
        self._waiting_since = waiting_since
        self._on_late = on_late
        self._ended = threading.Event()
        name = "tfjax_batches-watchdog"
        self._thread = threading.Thread(target=self._look, name=name, daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """End the thread soon, without waiting."""
        self._ended.set()

    def end(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        told_since, told_periods = None, 0
        while not self._ended.wait(self._period_seconds / _LOOKS):
            since = self._waiting_since()
            if since is None:
                continue
            seconds = time.perf_counter() - since
            periods = int(seconds / self._period_seconds)
            if periods > (told_periods if since == told_since else 0):
                told_since, told_periods = since, periods
                self._on_late(seconds)

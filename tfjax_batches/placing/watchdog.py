# SPDX-License-Identifier: Apache-2.0
"""Reports a wait that lasts too long, while it lasts."""

import threading
import time
from collections.abc import Callable

# Checks in each period: a report comes at most 1 / _CHECKS of a period late.
_CHECKS = 4


class Watchdog:
    """Checks from a sleeping thread whether a wait lasts.

    It is a daemon thread that runs no C++ code, so interpreter shutdown cannot crash it.

    Args:
        period_seconds: How often a wait that lasts is reported.
        waiting_since: Returns when the wait began, by `time.perf_counter`. None: nobody waits.
        on_late: Called once in each period of a wait, with the seconds since it began.
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
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """End the thread soon, without waiting for it."""
        self._ended.set()

    def end(self) -> None:
        """End the thread and wait for it."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        seen_since, seen_periods = None, 0
        while not self._ended.wait(self._period_seconds / _CHECKS):
            since = self._waiting_since()
            if since is None:
                continue
            seconds = time.perf_counter() - since
            periods = int(seconds / self._period_seconds)
            if periods > (seen_periods if since == seen_since else 0):
                seen_since, seen_periods = since, periods
                self._on_late(seconds)

# SPDX-License-Identifier: Apache-2.0
"""Warns of a `next` that waits too long, while it waits."""

import threading
import time

from absl import logging

from tfjax_batches.placing.stats import Progress


def warn_of_stalls(progress: Progress, stall_seconds: float, ended: threading.Event) -> None:
    """Log a warning each time a `next` has waited for `stall_seconds`, until `ended` is set.

    It runs no C++ code, so that interpreter shutdown cannot crash its thread.
    """
    reported = 0.0
    while not ended.wait(stall_seconds / 4):
        since, now = progress.waiting_since, time.perf_counter()
        if since is None or now - max(since, reported) < stall_seconds:
            continue
        reported = now
        logging.warning(
            "tfjax_batches: next() has waited %.1f s for batch %d of this iterator (state %r); the "
            "slow phase is %r. It keeps waiting. stall_seconds sets the period of this warning; "
            "None turns it off.",
            now - since,
            progress.steps,
            progress.state,
            progress.phase.value,
        )

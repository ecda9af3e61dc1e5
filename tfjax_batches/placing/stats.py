# SPDX-License-Identifier: Apache-2.0
"""Where the time of an iterator goes, and when that deserves a warning."""

import dataclasses
import enum
import time
from typing import Any

import jax


class Phase(enum.StrEnum):
    """What a thread is doing. Profiler traces show the names after `tfjax_batches: `."""

    READ = "read"
    """Getting the next host batch from its source."""
    FULL = "full"
    """Holding a host batch until there is room for it on the device."""
    PLACE = "place"
    """Converting a host batch and placing it."""
    WAIT = "wait"
    """The consumer, in `next`."""


_TRACE_NAMES = {phase: f"tfjax_batches: {phase.value}" for phase in Phase}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What an iterator has delivered so far, and where the time went.

    With `prefetch_depth=0` reading and placing happen in `next`, and count as waiting too.

    Attributes:
        steps: Batches delivered.
        examples: Examples in them, over all processes, padding left out.
        seconds: From the first call of `next` to the return of the last one.
        wait_seconds: The consumer's time in `next`.
        read_seconds: Time for getting host batches.
        place_seconds: Time for converting and placing them.
        full_seconds: Time in which the thread held a host batch and had no room for it. Only the
            part within `seconds` counts.
    """

    steps: int = 0
    examples: int = 0
    seconds: float = 0.0
    wait_seconds: float = 0.0
    read_seconds: float = 0.0
    place_seconds: float = 0.0
    full_seconds: float = 0.0

    @property
    def input_bound_share(self) -> float:
        """Share of the consumer's time that went on waiting for batches, 0 to 1."""
        return self.wait_seconds / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        return (
            f"{self.steps} steps, {self.examples} examples in {self.seconds:.1f} s: "
            f"{self.input_bound_share:.0%} input-bound (waited {self.wait_seconds:.1f} s; "
            f"read {self.read_seconds:.1f} s, place {self.place_seconds:.1f} s, "
            f"full {self.full_seconds:.1f} s)"
        )


class Progress:
    """How far an iterator is. Each field is written by one thread only.

    Attributes:
        steps: Batches delivered.
        state: State after the last of them; before the first, the state at the start.
        phase: What is done, or was done last, for the batches to come.
        waiting_since: When the `next` in progress began, by `time.perf_counter`. None: no `next`
            is in progress.
    """

    def __init__(self, state: Any) -> None:
        self.steps = 0
        self.state = state
        self.phase = Phase.READ
        self.waiting_since: float | None = None
        self._first_asked: float | None = None
        self._last_returned = 0.0
        self._elapsed = 0.0
        self._seconds = dict.fromkeys(Phase, 0.0)

    def timed(self, phase: Phase) -> "_Timed":
        """Return a context manager that counts the time of a phase and names it in traces."""
        return _Timed(self, phase)

    def stats(self) -> Stats:
        """Return the statistics so far; `examples` is not known here."""
        return Stats(
            steps=self.steps,
            seconds=self._elapsed,
            wait_seconds=self._seconds[Phase.WAIT],
            read_seconds=self._seconds[Phase.READ],
            place_seconds=self._seconds[Phase.PLACE],
            full_seconds=self._seconds[Phase.FULL],
        )

    def begin(self, phase: Phase, now: float) -> None:
        """Record that a phase begins at `now`, by `time.perf_counter`."""
        if phase is not Phase.WAIT:
            self.phase = phase
            return
        self.waiting_since = now
        if self._first_asked is None:
            self._first_asked = now

    def end(self, phase: Phase, start: float, now: float) -> None:
        """Record that a phase, begun at `start`, ends at `now`."""
        if phase is Phase.FULL:
            # The consumer may begin late, and do other things until it closes the iterator.
            start = max(start, now if self._first_asked is None else self._first_asked)
            if self.waiting_since is None:
                now = max(start, min(now, self._last_returned))
        self._seconds[phase] += now - start
        if phase is Phase.WAIT:
            self.waiting_since = None
            self._last_returned = now
            self._elapsed = now - (self._first_asked or now)


class _Timed:
    """A class, not a generator: it runs four times a step and adds no frame to tracebacks."""

    __slots__ = ("_annotation", "_phase", "_progress", "_start")

    def __init__(self, progress: Progress, phase: Phase) -> None:
        self._progress = progress
        self._phase = phase
        self._annotation = jax.profiler.TraceAnnotation(_TRACE_NAMES[phase])

    def __enter__(self) -> None:
        self._annotation.__enter__()
        self._start = time.perf_counter()
        self._progress.begin(self._phase, self._start)

    def __exit__(self, *error: object) -> None:
        self._progress.end(self._phase, self._start, time.perf_counter())
        self._annotation.__exit__(*error)


class InputBoundAlarm:
    """Reports, once, that the consumer spends much of its time waiting.

    It looks at windows of time and reports only when several in a row are input-bound, so that a
    slow start or one slow batch does not count.
    """

    SHARE = 0.3
    WINDOW_SECONDS = 20.0
    WINDOWS = 3

    def __init__(self) -> None:
        self._window_start = self._start = Stats()
        self._bound_windows = 0
        self._reported = False

    def check(self, stats: Stats) -> str | None:
        """Return the text of a warning, or None.

        Args:
            stats: Statistics of one iterator, later ones at each call.
        """
        seconds = stats.seconds - self._window_start.seconds
        if self._reported or seconds < self.WINDOW_SECONDS:
            return None
        waited = stats.wait_seconds - self._window_start.wait_seconds
        self._window_start = stats
        if waited < self.SHARE * seconds:
            self._start, self._bound_windows = stats, 0
            return None
        self._bound_windows += 1
        if self._bound_windows < self.WINDOWS:
            return None
        self._reported = True
        return _advice(self._start, stats)


def _advice(before: Stats, after: Stats) -> str:
    """Return how long the consumer waited between two stats, for which phase, and a hint."""
    seconds = after.seconds - before.seconds
    waited = after.wait_seconds - before.wait_seconds
    read = after.read_seconds - before.read_seconds
    place = after.place_seconds - before.place_seconds
    if read >= place:
        slow, hint = "reading", "Parse fewer features, or give the process more CPU cores."
    else:
        slow, hint = "placing", "Use smaller dtypes on the way to the device, or fewer features."
    return (
        f"{waited / seconds:.0%} of the last {seconds:.0f} s was spent waiting for batches, up to "
        f"step {after.steps} of this iterator. The slow phase is {slow} (read {read:.1f} s, "
        f"place {place:.1f} s). {hint}"
    )

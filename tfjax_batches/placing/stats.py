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
    """Getting the next host batch."""
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
        full_seconds: Time in which the thread held a host batch and had no room for it.
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
        self._seconds[phase] += now - start
        if phase is Phase.WAIT:
            self.waiting_since = None
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

    It looks at one window of time after the other. The first does not count, for its slow start.
    """

    SHARE = 0.3
    WINDOW_SECONDS = 60.0

    def __init__(self) -> None:
        self._before = Stats()
        self._reported = False

    def check(self, now: Stats) -> str | None:
        """Return the text of a warning, or None."""
        before, seconds = self._before, now.seconds - self._before.seconds
        if self._reported or seconds < self.WINDOW_SECONDS:
            return None
        self._before = now
        waited = now.wait_seconds - before.wait_seconds
        if not before.steps or waited < self.SHARE * seconds:
            return None
        self._reported = True
        read = now.read_seconds - before.read_seconds
        place = now.place_seconds - before.place_seconds
        return (
            f"{waited / seconds:.0%} of the last {seconds:.0f} s was spent waiting for batches, up "
            f"to step {now.steps} of this iterator. The slow phase is "
            f"{'reading' if read >= place else 'placing'} (read {read:.1f} s, place {place:.1f} "
            "s). Use fewer features, smaller dtypes, or more CPU cores for this process."
        )

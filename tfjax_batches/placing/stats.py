# SPDX-License-Identifier: Apache-2.0
"""Where the time of an iterator goes: what it counts, and when that deserves a warning."""

import dataclasses
import enum
import time

import jax


class Phase(enum.StrEnum):
    """What a thread is doing; the names stand in profiler traces after `tfjax_batches: `."""

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
        wait_seconds: Spent by the consumer in `next`.
        read_seconds: Spent on getting host batches.
        place_seconds: Spent on converting and placing them.
        full_seconds: Spent by the thread with a host batch in hand and no room for it.
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


class Clock:
    """Adds up the seconds of each phase. A phase is entered by one thread at a time."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(Phase, 0.0)

    def phase(self, phase: Phase) -> "_Timed":
        """Return what counts the time of a `with` block, and names it in profiler traces."""
        return _Timed(self.seconds, phase)


class _Timed:
    """A class, not a generator: it runs four times a step, and adds no frame to tracebacks."""

    __slots__ = ("_annotation", "_phase", "_seconds", "_start")

    def __init__(self, seconds: dict[Phase, float], phase: Phase) -> None:
        self._seconds = seconds
        self._phase = phase
        self._annotation = jax.profiler.TraceAnnotation(_TRACE_NAMES[phase])

    def __enter__(self) -> None:
        self._annotation.__enter__()
        self._start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self._seconds[self._phase] += time.perf_counter() - self._start
        self._annotation.__exit__(*error)


class InputBoundAlarm:
    """Finds out, once, that the consumer spends much of its time waiting.

    Windows of time are looked at one by one, so that a slow start, or one slow batch, is no
    cause: only when several in a row are input-bound does it go off.
    """

    SHARE = 0.3
    WINDOW_SECONDS = 20.0
    WINDOWS = 3

    def __init__(self) -> None:
        self._window_start = self._start = Stats()
        self._bound_windows = 0
        self._rung = False

    def is_due(self, seconds: float) -> bool:
        """Whether `check` may have something to say so many seconds after the start."""
        return not self._rung and seconds - self._window_start.seconds >= self.WINDOW_SECONDS

    def check(self, stats: Stats) -> str | None:
        """Return what to warn of, or None; call it with ever later stats of one iterator."""
        if not self.is_due(stats.seconds):
            return None
        seconds = stats.seconds - self._window_start.seconds
        waited = stats.wait_seconds - self._window_start.wait_seconds
        self._window_start = stats
        if waited < self.SHARE * seconds:
            self._start, self._bound_windows = stats, 0
            return None
        self._bound_windows += 1
        if self._bound_windows < self.WINDOWS:
            return None
        self._rung = True
        return _advice(self._start, stats)


def _advice(before: Stats, after: Stats) -> str:
    """Say how long the consumer waited between two stats, for which stage, and what may help."""
    seconds = after.seconds - before.seconds
    waited = after.wait_seconds - before.wait_seconds
    read = after.read_seconds - before.read_seconds
    place = after.place_seconds - before.place_seconds
    if read >= place:
        stage, mend = "reading", "Parse fewer features, or give the process more CPU cores."
    else:
        stage, mend = "placing", "Use smaller dtypes on the way to the device, or fewer features."
    return (
        f"{waited / seconds:.0%} of the last {seconds:.0f} s went on waiting for batches, at step "
        f"{after.steps} of this iterator. The slow stage is {stage} (read {read:.1f} s, place "
        f"{place:.1f} s). {mend}"
    )

# SPDX-License-Identifier: Apache-2.0
"""The double buffer keeps order, errors, state and bounds, and ends."""

import contextlib
import gc
import itertools
import random
import re
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches.errors import IteratorClosedError
from tfjax_batches.placing.prefetcher import Prefetcher
from tfjax_batches.placing.stats import Phase

DEPTHS = pytest.mark.parametrize("depth", [0, 1, 2, 5])
HANG_SECONDS = 20


def threads() -> int:
    return sum(thread.name.startswith("tfjax_batches") for thread in threading.enumerate())


def eventually(condition: Callable[..., bool]) -> bool:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def failing_at(last: int) -> Iterator[int]:
    yield from range(last)
    raise KeyError("record 13")


class Blocked(Iterator[int]):
    """Gives `ready` numbers and then blocks until it is cancelled."""

    def __init__(self, ready: int) -> None:
        self.given = 0
        self._ready = ready
        self._cancelled = threading.Event()

    def __next__(self) -> int:
        if self.given == self._ready:
            self._cancelled.wait(HANG_SECONDS)
        self.given += 1
        return self.given - 1

    def cancel(self) -> None:
        self._cancelled.set()


@DEPTHS
def test_prefetcher_batches_come_in_order_and_end(depth: int) -> None:
    batches = Prefetcher(iter(range(20)), str, depth=depth)
    assert list(batches) == [str(i) for i in range(20)]
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(batches)
    assert eventually(lambda: threads() == 0)  # without a close


@DEPTHS
def test_prefetcher_error_of_source_comes_at_its_place_and_again(depth: int) -> None:
    batches = Prefetcher(failing_at(3), str, depth=depth)
    assert [next(batches) for _ in range(3)] == ["0", "1", "2"]
    lengths = set()
    for _ in range(3):
        with pytest.raises(KeyError, match="record 13") as caught:
            next(batches)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].name == "failing_at"
        lengths.add(len(frames))
    assert len(lengths) == 1  # the frames of earlier raises are not added
    batches.close()


@DEPTHS
def test_prefetcher_error_of_place_comes_at_its_place(depth: int) -> None:
    def place(number: int) -> float:
        return 6 / (number - 2)

    with Prefetcher(iter(range(5)), place, depth=depth) as batches:
        assert [next(batches), next(batches)] == [-3, -6]
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                next(batches)


@DEPTHS
def test_prefetcher_state_is_that_of_the_batch_delivered(depth: int) -> None:
    read = []

    def source() -> Iterator[int]:
        for number in range(10):
            read.append(number)
            yield number

    with Prefetcher(source(), str, depth=depth, get_state=lambda: len(read)) as batches:
        assert batches.state == 0
        for step in range(10):
            # The thread has read as far ahead as it may: none of that is in the state.
            assert eventually(lambda step=step: len(read) >= min(10, step + depth))
            assert batches.state == step
            assert next(batches) == str(step)
            assert batches.state == step + 1
        assert next(batches, None) is None
        assert batches.state == 10


@DEPTHS
def test_prefetcher_makes_depth_ahead_and_no_more(depth: int) -> None:
    read = itertools.count()
    placed: list[int] = []

    def place(number: int) -> int:
        placed.append(number)
        return number

    with Prefetcher(read, place, depth=depth) as batches:
        for taken in range(1, 8):
            next(batches)
            assert eventually(lambda taken=taken: len(placed) == taken + depth)
            time.sleep(0.005)
            assert len(placed) == taken + depth
    # One more host batch is in hand, so that its copy starts as soon as there is room.
    assert next(read) == len(placed) + (depth > 0)


@pytest.mark.parametrize(("max_bytes", "ahead"), [(1, 0), (2047, 0), (2048, 1), (6200, 3)])
def test_prefetcher_keeps_what_waits_under_max_bytes(max_bytes: int, ahead: int) -> None:
    """A batch of 4 × 64 float32 over (data=2) of a (2, 2) mesh takes 2,048 bytes: two replicas."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    placed: list[int] = []

    def place(number: int) -> jax.Array:
        placed.append(number)
        array: jax.Array = jax.device_put(np.full((4, 64), number, np.float32), sharding)
        return array

    with Prefetcher(itertools.count(), place, depth=5, max_bytes=max_bytes) as batches:
        # The size of the first one is not known, so it waits to be asked for.
        assert eventually(lambda: batches._progress.phase is Phase.FULL)
        time.sleep(0.005)
        assert not placed
        for step in range(10):
            assert next(batches)[0, 0] == step
            assert eventually(lambda step=step: len(placed) == step + 1 + ahead)
            time.sleep(0.005)
            assert len(placed) == step + 1 + ahead


def test_prefetcher_makes_smaller_batches_ahead_after_one_beyond_max_bytes() -> None:
    def place(rows: int) -> jax.Array:
        return jax.numpy.zeros(rows, jax.numpy.float32)

    with Prefetcher(iter([64, 64, 4, 4, 4, 4, 4]), place, depth=2, max_bytes=128) as batches:
        assert [next(batches).size for _ in range(3)] == [64, 64, 4]
        assert eventually(lambda: len(batches._buffer._entries) == 2)


def test_prefetcher_two_consumers_that_wait_for_one_batch_each_both_get_it() -> None:
    """The one that is served first must not hide that the other still waits."""
    release = threading.Event()

    def source() -> Iterator[int]:
        assert release.wait(HANG_SECONDS)
        yield from range(2)

    with Prefetcher(source(), jax.numpy.int32, depth=2, max_bytes=1) as batches:
        consumers = [threading.Thread(target=batches.__next__, daemon=True) for _ in range(2)]
        for consumer in consumers:
            consumer.start()
        time.sleep(0.1)  # both wait
        release.set()
        assert eventually(lambda: not any(consumer.is_alive() for consumer in consumers))


@DEPTHS
def test_prefetcher_closed_gives_no_more(depth: int) -> None:
    batches = Prefetcher(iter(range(20)), str, depth=depth)
    next(batches)
    batches.close()
    batches.close()
    assert threads() == 0
    with pytest.raises(IteratorClosedError, match=r"is closed. Make another with iter\(loader\)"):
        next(batches)


@DEPTHS
def test_prefetcher_leaving_with_by_an_error_closes(depth: int) -> None:
    def leave() -> None:
        with Prefetcher(itertools.count(), str, depth=depth) as batches:
            next(batches)
            raise OSError("of the loop")

    with pytest.raises(OSError, match="of the loop"):
        leave()
    assert threads() == 0


@DEPTHS
def test_prefetcher_dropped_or_failed_lets_go_of_all(depth: int) -> None:
    """Neither the thread nor `atexit` nor a traceback keeps source, batches or loop alive."""

    class Thing:
        pass

    def source(end: list[str]) -> Iterator[Thing]:
        try:
            for _ in range(3):
                yield Thing()
            raise KeyError
        finally:
            end.append("closed")

    alive: list[weakref.ref[Thing]] = []
    end: list[str] = []

    def place(thing: Thing) -> Thing:
        alive.append(weakref.ref(thing))
        return thing

    def loop(steps: int) -> None:
        batches = Prefetcher(source(end), place, depth=depth)
        kept = []
        for _ in range(steps):
            kept.append(next(batches))  # in the frame, when it fails

    loop(2)
    with contextlib.suppress(KeyError):
        loop(5)
    gc.collect()
    assert eventually(lambda: threads() == 0 and end == ["closed"] * 2)
    gc.collect()
    assert [ref() for ref in alive] == [None] * len(alive)


def test_prefetcher_blocked_source_is_cancelled_and_joined() -> None:
    source = Blocked(ready=1)
    batches = Prefetcher(source, str, depth=2, cancel=source.cancel)
    next(batches)
    batches.close()
    assert threads() == 0


def test_prefetcher_blocked_source_that_cannot_be_cancelled_does_not_keep_close(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Blocked(ready=1)
    batches = Prefetcher(source, str, depth=2)
    next(batches)
    start = time.monotonic()
    batches.close()
    assert time.monotonic() - start < HANG_SECONDS / 2
    assert re.search(r"phase 'read'.* has not ended in 1.5 s", caplog.text)
    source.cancel()
    assert eventually(lambda: threads() == 0)


def test_prefetcher_synchronous_source_that_ends_slowly_does_not_keep_close() -> None:
    """As tf.data does, which waits for what it has begun to read ahead."""
    release = threading.Event()

    class Lingering(Blocked):
        def __del__(self) -> None:
            release.wait(HANG_SECONDS)

    batches = Prefetcher(Lingering(ready=5), str, depth=0)
    assert next(batches) == "0"
    start = time.monotonic()
    batches.close()
    assert time.monotonic() - start < HANG_SECONDS / 2
    release.set()
    assert eventually(lambda: threads() == 0)


@DEPTHS
def test_prefetcher_close_in_another_thread_wakes_next(depth: int) -> None:
    source = Blocked(ready=0)
    batches = Prefetcher(source, str, depth=depth, cancel=source.cancel)
    closer = threading.Timer(0.05, batches.close)
    closer.start()
    with pytest.raises(IteratorClosedError):
        next(batches)
    closer.join()
    assert eventually(lambda: threads() == 0)


@DEPTHS
def test_prefetcher_stall_is_logged_once_a_period(
    depth: int, caplog: pytest.LogCaptureFixture
) -> None:
    def source() -> Iterator[int]:
        yield 0
        assert eventually(lambda: len(caplog.records) >= 3)
        yield 1

    batches = Prefetcher(source(), str, depth=depth, get_state=lambda: 70, stall_seconds=0.05)
    assert list(batches) == ["0", "1"]
    assert eventually(lambda: threads() == 0)
    first, second, *_ = (record.getMessage() for record in caplog.records)
    assert re.search(r"waited 0\.\d+ s for batch 1 .*state 70", first)
    assert re.search(r"phase is 'read'.*stall_seconds", second)
    batches.close()


def test_prefetcher_stats_count_each_phase() -> None:
    """Lower bounds only: what sleeps takes at least so long."""

    def source() -> Iterator[int]:
        for number in range(3):
            time.sleep(0.02)
            yield number

    def place(number: int) -> int:
        time.sleep(0.04)
        return number

    with Prefetcher(source(), place, depth=1) as batches:
        assert batches.stats.seconds == 0
        assert batches.stats.input_bound_share == 0
        assert next(batches) == 0
        assert eventually(lambda: batches._progress.phase is Phase.FULL)
        time.sleep(0.1)
        assert list(batches) == [1, 2]
        stats = batches.stats
    assert stats.steps == 3
    assert stats.read_seconds >= 0.06
    assert stats.place_seconds >= 0.12
    assert stats.full_seconds >= 0.02
    assert 0 < stats.wait_seconds <= stats.seconds


@pytest.mark.parametrize("seed", range(10))
def test_prefetcher_stress_values_errors_and_closes_at_random_points(seed: int) -> None:
    """50 rounds each: two iterators at once, with sleeps on both sides."""
    dice = random.Random(seed)

    def nap(most: float = 0.0005) -> None:
        if dice.random() < 0.5:
            time.sleep(dice.random() * most)

    def source(length: int, failing: bool) -> Iterator[int]:
        for number in range(length):
            nap()
            yield number
        if failing:
            raise KeyError(length)

    def check_end(batches: Prefetcher[int, str], length: int, failing: bool) -> None:
        if failing:
            with pytest.raises(KeyError, match=str(length)):
                next(batches)
        else:
            assert next(batches, None) is None

    for _ in range(50):
        length, failing, taken = dice.randrange(12), dice.random() < 0.5, dice.randrange(14)
        make = [
            Prefetcher(
                source(length, failing),
                str,
                depth=dice.randrange(4),
                max_bytes=dice.choice([9, None]),
            )
            for _ in range(2)
        ]
        for step in range(min(length, taken)):
            for batches in make:
                nap()
                assert next(batches) == str(step)
        for batches in make:
            if taken >= length:
                check_end(batches, length, failing)
            nap()
            batches.close()
            with pytest.raises(IteratorClosedError):
                next(batches)
    assert eventually(lambda: threads() == 0)


def test_prefetcher_interrupted_without_a_thread_says_how_to_go_on() -> None:
    def source() -> Iterator[int]:
        yield 0
        raise KeyboardInterrupt

    items = Prefetcher(source(), str, depth=0)
    assert next(items) == "0"
    with pytest.raises(KeyboardInterrupt):
        next(items)
    for _ in range(2):
        with pytest.raises(IteratorClosedError, match=r"was interrupted .*set_state"):
            next(items)

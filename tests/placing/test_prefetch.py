# SPDX-License-Identifier: Apache-2.0
"""The double buffer keeps order, errors and bounds, and ends."""

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from tfjax_batches.errors import IteratorClosedError
from tfjax_batches.placing.prefetch import Prefetcher

DEPTHS = pytest.mark.parametrize("depth", [0, 1, 2, 5])


def prefetch_threads() -> int:
    return sum(thread.name.startswith("tfjax_batches") for thread in threading.enumerate())


def failing_at(last: int) -> Iterator[int]:
    yield from range(last)
    raise KeyError("record 13")


@DEPTHS
def test_prefetcher_items_come_in_order_and_end(depth: int) -> None:
    items = Prefetcher(iter(range(20)), depth)
    assert list(items) == list(range(20))
    with pytest.raises(StopIteration):
        next(items)
    items.close()
    assert prefetch_threads() == 0


@DEPTHS
def test_prefetcher_error_comes_at_its_place_and_again(depth: int) -> None:
    items = Prefetcher(failing_at(3), depth)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(KeyError, match="record 13") as caught:
            next(items)
    assert "failing_at" in str(caught.traceback[-1])
    items.close()


@DEPTHS
def test_prefetcher_never_makes_more_than_depth_ahead(depth: int) -> None:
    made = []

    def source() -> Iterator[int]:
        for item in range(30):
            made.append(item)
            yield item

    items = Prefetcher(source(), depth)
    for taken in range(1, 10):
        next(items)
        time.sleep(0.01)
        assert len(made) <= taken + depth
    items.close()


@DEPTHS
def test_prefetcher_closed_gives_no_more(depth: int) -> None:
    items = Prefetcher(iter(range(20)), depth)
    next(items)
    items.close()
    items.close()
    with pytest.raises(IteratorClosedError, match=r"is closed. Make another with iter\(loader\)"):
        next(items)


def test_prefetcher_dropped_ends_its_thread() -> None:
    items = Prefetcher(iter(range(20)), 2)
    next(items)
    assert prefetch_threads() == 1
    del items
    gc.collect()
    assert prefetch_threads() == 0


def test_prefetcher_close_does_not_wait_for_a_blocked_source() -> None:
    release = threading.Event()

    def source() -> Iterator[int]:
        yield 0
        release.wait(60)

    items = Prefetcher(source(), 2)
    next(items)
    start = time.monotonic()
    items.close()
    assert time.monotonic() - start < 5
    release.set()

# SPDX-License-Identifier: Apache-2.0
"""Shares, texts, names in a trace, and when a warning is due."""

import itertools
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from tfjax_batches.placing.prefetcher import Prefetcher
from tfjax_batches.placing.stats import InputBoundAlarm, Phase, Stats


def stats_at(seconds: float, share: float, read: float = 0.5, place: float = 0.1) -> Stats:
    return Stats(
        steps=int(seconds),
        seconds=seconds,
        wait_seconds=share * seconds,
        read_seconds=read * seconds,
        place_seconds=place * seconds,
    )


def test_stats_str_is_one_line_of_all_figures() -> None:
    stats = Stats(
        steps=1200,
        examples=307_200,
        seconds=60.0,
        wait_seconds=3.0,
        read_seconds=20.04,
        place_seconds=10.0,
        full_seconds=30.0,
    )
    assert stats.input_bound_share == 0.05
    assert str(stats) == (
        "1200 steps, 307200 examples in 60.0 s: 5% input-bound (waited 3.0 s; read 20.0 s, "
        "place 10.0 s, full 30.0 s)"
    )


def test_alarm_rings_once_when_the_share_stays_high() -> None:
    alarm = InputBoundAlarm()
    texts = [alarm.check(stats_at(seconds, share=0.4)) for seconds in range(1, 300)]
    (text,) = [text for text in texts if text]
    assert texts.index(text) + 1 == 120
    assert re.search(r"40% of the last 60 s .*step 120", text)
    assert re.search(r"reading \(read 30\.0 s, place 6\.0 s\).*fewer features", text)


def test_alarm_names_placing_where_that_is_slower() -> None:
    alarm = InputBoundAlarm()
    texts = [alarm.check(stats_at(s, share=1.0, read=0.1, place=0.9)) for s in range(1, 130)]
    assert "placing" in "".join(filter(None, texts))


def test_alarm_is_silent_on_a_low_share_a_slow_start_and_one_slow_batch() -> None:
    low, start, hiccups = InputBoundAlarm(), InputBoundAlarm(), InputBoundAlarm()
    waited = 0.0
    for seconds in range(1, 1000):
        assert low.check(stats_at(seconds, share=0.2)) is None
        slow_start = Stats(steps=seconds, seconds=seconds, wait_seconds=min(seconds, 40))
        assert start.check(slow_start) is None
        waited += seconds % 100 < 10
        now = Stats(steps=seconds, seconds=seconds, wait_seconds=waited)
        assert hiccups.check(now) is None


def test_prefetcher_logs_the_alarm_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(InputBoundAlarm, "WINDOW_SECONDS", 0.0)
    monkeypatch.setattr(InputBoundAlarm, "SHARE", 0.0)
    with (
        caplog.at_level(logging.WARNING, logger="absl"),
        Prefetcher(itertools.count(), str, depth=1) as batches,
    ):
        for _ in range(10):
            next(batches)
    (record,) = caplog.records
    assert "step 2 of this iterator" in record.getMessage()


def test_phases_are_named_in_a_profiler_trace(tmp_path: Path) -> None:
    def source() -> Iterator[int]:
        yield from range(3)

    with jax.profiler.trace(str(tmp_path)):
        assert len(list(Prefetcher(source(), str, depth=1))) == 3
    traced = b"".join(file.read_bytes() for file in tmp_path.rglob("*.xplane.pb"))
    for phase in Phase:
        assert f"tfjax_batches: {phase.value}".encode() in traced

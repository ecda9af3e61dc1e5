# SPDX-License-Identifier: Apache-2.0
"""Benchmarks notice what became slower, and not what only varies between rounds."""

import json
from pathlib import Path

import bench_report
import pytest
from bench_report import Results


def results_of(ours: list[float], peer: list[float]) -> Results:
    """Return the results of one workload, with a rate for each round."""
    rates = {"tfjax_batches": ours, "tfds": peer}
    return {"tokens": {name: [{"rate": rate} for rate in rates[name]] for name in rates}}


@pytest.fixture(autouse=True)
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A baseline of ratios 4.0 ± 0.4 in a temporary file."""
    path = tmp_path / "baseline.json"
    monkeypatch.setattr(bench_report, "BASELINE", path)
    bench_report.save_baseline(results_of([40.0, 36.0, 44.0], [10.0, 10.0, 10.0]))
    return path


@pytest.mark.parametrize(
    ("ours", "peer", "is_slower"),
    [
        ([40.0, 40.0, 40.0], [10.0, 10.0, 10.0], False),
        ([34.0, 33.0, 35.0], [10.0, 10.0, 10.0], False),  # within the spread of the baseline
        ([31.0, 30.0, 32.0], [10.0, 10.0, 10.0], True),
        ([31.0, 20.0, 42.0], [10.0, 10.0, 10.0], False),  # within the spread of this run
        ([15.5, 15.0, 16.0], [5.0, 5.0, 5.0], True),
        ([20.0, 20.0, 20.0], [5.0, 5.0, 5.0], False),  # a slower machine
    ],
)
def test_compare_finds_what_is_slower_by_more_than_the_spread(
    ours: list[float], peer: list[float], is_slower: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench_report.compare_with_baseline(results_of(ours, peer)) is is_slower
    assert ("tokens: 3.10 × tfds, was 4.00 ×" in capsys.readouterr().out) is is_slower


def test_compare_without_a_common_workload_is_an_error() -> None:
    results = {"jpeg": results_of([1.0], [1.0])["tokens"]}
    with pytest.raises(SystemExit, match="--save-baseline"):
        bench_report.compare_with_baseline(results)


def test_baseline_holds_versions_and_keeps_other_workloads(baseline: Path) -> None:
    bench_report.save_baseline({"jpeg": results_of([1.0], [2.0])["tokens"]})
    content = json.loads(baseline.read_text())
    assert content["ratios"]["jpeg"]["tfds"]["median"] == 0.5
    assert content["ratios"]["tokens"]["tfds"] == {"median": 4.0, "lowest": 3.6, "highest": 4.4}
    assert {"python", "jax", "numpy", "tfjax_batches"} <= set(content["versions"])

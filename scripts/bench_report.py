# SPDX-License-Identifier: Apache-2.0
"""What bench.py says about its results: tables, a JSON file, and what became worse.

`bench_baseline.json` remembers our rate divided by the rate of each other engine. Ratios within one
round hold on machines of different speeds, where rates do not.
"""

import importlib.metadata
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

OURS = "tfjax_batches"
PACKAGES = ("jax", "tensorflow-cpu", "tensorflow-datasets", "numpy", OURS, "clu", "grain")
BASELINE = Path(__file__).with_name("bench_baseline.json")

Results = dict[str, dict[str, list[dict[str, float]]]]
"""workload → engine → the figures of each round."""

Ratios = dict[str, dict[str, dict[str, float]]]
"""workload → other engine → median, lowest and highest ratio of our rate to its rate."""


def describe_machine() -> dict[str, Any]:
    """Return the CPU count and the versions that figures depend on."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"cpus": os.cpu_count(), "versions": versions}


def compute_ratios(results: Results) -> Ratios:
    """Return the ratios of each workload over the rounds; needs our own results."""
    ratios: Ratios = {}
    for workload, engines in results.items():
        ratios[workload] = {}
        for engine in engines:
            if engine == OURS:
                continue
            by_round = [
                ours["rate"] / other["rate"]
                for ours, other in zip(engines[OURS], engines[engine], strict=True)
            ]
            ratios[workload][engine] = {
                "median": statistics.median(by_round),
                "lowest": min(by_round),
                "highest": max(by_round),
            }
    return ratios


def find_regressions(now: Ratios, baseline: Ratios) -> list[str]:
    """Return a line for each ratio that became worse by more than the spread of its rounds.

    Args:
        now: The ratios of this run.
        baseline: Those to compare with. Workloads and engines that it lacks are left out.
    """
    lines = []
    for workload, engines in now.items():
        for engine, ratio in engines.items():
            before = baseline.get(workload, {}).get(engine)
            if before is None:
                continue
            spread = max(each["highest"] - each["lowest"] for each in (ratio, before))
            if ratio["median"] < before["median"] - spread:
                lines.append(
                    f"{workload}: {ratio['median']:.2f} × {engine}, was {before['median']:.2f} ×; "
                    f"the spread of the rounds is {spread:.2f}"
                )
    return lines


def save_baseline(results: Results) -> None:
    """Write the ratios of this run into `bench_baseline.json`; keep those of other workloads."""
    known = _load_baseline()["ratios"]
    for workload, engines in compute_ratios(results).items():
        known[workload] = {**known.get(workload, {}), **engines}
    write_json(BASELINE, {**describe_machine(), "ratios": known})


def compare_with_baseline(results: Results) -> bool:
    """Print what became worse than the baseline, and return whether anything did.

    Raises:
        SystemExit: The baseline holds no ratio of this run.
    """
    baseline = _load_baseline()
    now, before = compute_ratios(results), baseline["ratios"]
    if not any(set(engines) & set(before.get(name, {})) for name, engines in now.items()):
        sys.exit("The baseline has no ratio of these workloads and engines; run --save-baseline.")
    print()
    for package, version in describe_machine()["versions"].items():
        if version != (old := baseline["versions"].get(package)):
            print(f"The baseline was measured with {package} {old}; this run has {version}.")
    lines = find_regressions(now, before)
    print("\n".join(["Slower than the baseline:", *lines]) if lines else "As fast as the baseline.")
    return bool(lines)


def write_json(path: str | Path, content: dict[str, Any]) -> None:
    """Write a JSON file, with four significant digits for each float."""

    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rounded(each) for key, each in value.items()}
        if isinstance(value, list):
            return [rounded(each) for each in value]
        return float(f"{value:.4g}") if isinstance(value, float) else value

    Path(path).write_text(json.dumps(rounded(content), indent=2) + "\n")


def print_table(name: str, engines: dict[str, list[dict[str, float]]]) -> None:
    """Print median, spread, first batch and memory of each engine.

    Args:
        name: The workload.
        engines: engine → the figures of each round.
    """
    print(f"\n{name}: examples/s on 2 × 2 CPU devices, shuffled")
    print(
        f"{'engine':14} {'median':>9} {'lowest':>9} {'highest':>9} {'ours is':>9}"
        f" {'CPU/example':>12} {'first batch':>12} {'peak memory':>12}"
    )
    ours = statistics.median(each["rate"] for each in engines.get(OURS, [{"rate": 0.0}]))
    for engine, results in engines.items():
        rates = [result["rate"] for result in results]
        line = f"{engine:14} {statistics.median(rates):9,.0f} {min(rates):9,.0f} {max(rates):9,.0f}"
        line += f" {ours / statistics.median(rates):7.2f} ×"
        line += f" {_median_of('cpu_us', results):9,.1f} µs"
        if "first_seconds" in results[0]:
            line += f" {_median_of('first_seconds', results):10.2f} s"
            line += f" {_median_of('peak_mb', results):9,.0f} MB"
        print(line)


def _median_of(figure: str, results: list[dict[str, float]]) -> float:
    return statistics.median(result[figure] for result in results)


def _load_baseline() -> dict[str, Any]:
    if not BASELINE.exists():
        return {"versions": {}, "ratios": {}}
    content: dict[str, Any] = json.loads(BASELINE.read_text())
    return content

# SPDX-License-Identifier: Apache-2.0
"""Compares this loader with the usual ways to read TFDS, as ratios within one run.

    python scripts/bench.py [WORKLOAD ...] [--engines A,B] [--rounds 5] [--seconds 3] [--json FILE]
    python scripts/bench.py --compare        # exits with 1 if it is slower than bench_baseline.json
    python scripts/bench.py --save-baseline  # writes bench_baseline.json
    python scripts/bench.py --quick          # small data, one short round: shows that it runs
    python scripts/bench.py first_batch      # the time from iter to the first batch, by itself

Engines take turns for several rounds, each in its own process. The machine may be shared, so trust
medians and ratios. If the load of other programs changes, the CPU time per example says more than
the rate; for grain_loader it does not count the worker processes. `limit` only parses and decodes
records that are in memory, and `tfjax_mixture` reads the same dataset as four sources. The first
run writes the datasets to --data_dir. Needs the `bench` extra.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import bench_report
from bench_report import Results

NAMES = ("tabular", "tokens", "small_png", "jpeg")
ENGINES = ("tfjax_batches", "tfjax_mixture", "tfds", "clu", "grain_map", "grain_loader", "limit")
FIRST_BATCH = "first_batch"
WARM_UP_SECONDS = 2.0
TURN_ENVIRONMENT = {
    # JAX reads these when it starts: a 2 × 2 mesh on any machine.
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
TURN_TIMEOUT_SECONDS = 1200  # the first turn of a workload writes its dataset


def measure(engine: str, name: str, options: argparse.Namespace) -> dict[str, float]:
    """Run one turn of an engine in this process, and return its figures.

    Args:
        engine: One of `ENGINES`.
        name: The workload, one of `NAMES`.
        options: `data_dir`, `quick` and `seconds`.

    Returns:
        `rate` in examples/s and `cpu_us` in CPU µs an example; of an engine also `first_seconds`
        until the first batch and `peak_mb` of memory.
    """
    # Imported here: the parent process needs neither, and JAX reads its flags only once.
    import bench_engines
    import bench_workloads
    import jax

    workload = bench_workloads.WORKLOADS[name]
    if options.quick:
        workload = bench_workloads.quick(workload)
    seconds = 0.3 if options.quick else options.seconds
    if engine == "limit":
        rate, cpu_us = bench_engines.measure_limit(workload, options.data_dir, seconds)
        return {"rate": rate, "cpu_us": cpu_us}
    make_batches = bench_engines.ENGINES[engine](workload, options.data_dir)
    start = time.perf_counter()
    batches: Any = make_batches()  # all have close()
    jax.block_until_ready(next(batches))
    first_seconds = time.perf_counter() - start
    count_batches(batches, 0.1 if options.quick else WARM_UP_SECONDS)
    cpu_start, start = time.process_time(), time.perf_counter()
    rate = count_batches(batches, seconds) * workload.batch_size
    examples = rate * (time.perf_counter() - start)
    cpu_us = (time.process_time() - cpu_start) / examples * 1e6
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    batches.close()
    return {
        "rate": rate,
        "cpu_us": cpu_us,
        "first_seconds": first_seconds,
        "peak_mb": peak_bytes / 1e6,
    }


def measure_first_batch(options: argparse.Namespace) -> None:
    """Print the time to the first batch, measured in this process on one CPU device."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import bench_first_batch

    bench_first_batch.print_first_batch(options.data_dir, 1 if options.quick else options.rounds)


def count_batches(batches: Any, seconds: float) -> float:
    """Return how many batches a second become ready on all devices."""
    import jax

    start, count = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        jax.block_until_ready(next(batches))
        count += 1
    return count / (time.perf_counter() - start)


def run_turn(
    engine: str, names: list[str], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Run one turn of an engine in a new process, and return its figures by workload."""
    command = [sys.executable, __file__, *names, "--turn", engine, "--data_dir", options.data_dir]
    command += ["--seconds", str(options.seconds), *(["--quick"] if options.quick else [])]
    done = subprocess.run(
        command,
        env={**os.environ, **TURN_ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=TURN_TIMEOUT_SECONDS,
    )
    if done.returncode:
        sys.exit(f"{engine} on {', '.join(names)} failed:\n{done.stderr[-4000:]}")
    results: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return results


def run_rounds(options: argparse.Namespace) -> Results:
    """Let the engines take turns, and return all results."""
    results: Results = {name: {e: [] for e in options.engines} for name in options.workloads}
    # Peak memory is counted per process, so each workload gets its own; --quick saves that time.
    runs = [options.workloads] if options.quick else [[name] for name in options.workloads]
    for names in runs:
        for number in range(1 if options.quick else options.rounds):
            for engine in options.engines:
                for name, result in run_turn(engine, names, options).items():
                    results[name][engine].append(result)
                    line = f"{name} round {number + 1} {engine}: {result['rate']:,.0f}/s"
                    print(line, file=sys.stderr, flush=True)
    return results


def parse_arguments() -> argparse.Namespace:
    """Return the options, with comma-separated lists split."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=", ".join([*NAMES, FIRST_BATCH])
    )
    parser.add_argument("--engines", default=",".join(ENGINES), help="separated by commas")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each turn")
    parser.add_argument("--quick", action="store_true", help="small data, one short round")
    parser.add_argument("--json", metavar="FILE", help="write all figures and versions here")
    baseline = parser.add_mutually_exclusive_group()
    baseline.add_argument("--compare", action="store_true", help="exit with 1 if it became slower")
    baseline.add_argument("--save-baseline", action="store_true", help="what --compare reads")
    default = os.path.join(tempfile.gettempdir(), "tfjax_batches_bench")
    parser.add_argument("--data_dir", default=default, help="folder for the datasets")
    parser.add_argument("--turn", metavar="ENGINE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.engines = options.engines.split(",")
    options.workloads = options.workloads or list(NAMES)
    if options.workloads == [FIRST_BATCH]:
        return options
    for given, known in ((options.workloads, NAMES), (options.engines, ENGINES)):
        if unknown := sorted(set(given) - set(known)):
            parser.error(f"unknown name {unknown[0]!r}; choose from {', '.join(known)}")
    if (options.compare or options.save_baseline) and "tfjax_batches" not in options.engines:
        parser.error("a baseline holds ratios of tfjax_batches; add it to --engines")
    return options


def main() -> None:
    """Run all turns; print, save and compare what they measured."""
    options = parse_arguments()
    if options.workloads == [FIRST_BATCH]:
        measure_first_batch(options)
        return
    if options.turn:
        measured = {name: measure(options.turn, name, options) for name in options.workloads}
        print(json.dumps(measured), flush=True)
        return
    results = run_rounds(options)
    for name, engines in results.items():
        bench_report.print_table(name, engines)
    if options.json:
        content = {**bench_report.describe_machine(), "workloads": results}
        bench_report.write_json(options.json, content)
    if options.save_baseline:
        bench_report.save_baseline(results)
    if options.compare and bench_report.compare_with_baseline(results):
        sys.exit(1)


if __name__ == "__main__":
    main()

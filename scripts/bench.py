# SPDX-License-Identifier: Apache-2.0
"""Measures this loader beside the usual ways, as ratios within one run.

    python scripts/bench.py [WORKLOAD ...] [--engines A,B] [--rounds 5] [--seconds 3] [--json FILE]
    python scripts/bench.py --quick       # small data, one short round: to see that it runs

Engines take turns, each in a process of its own, for several rounds: the machine may be shared,
and medians and ratios are what counts. Where other programs take a share of the machine that
changes, the CPU time of an example says more than the rate; that of grain_loader leaves out its
processes. `limit` is parsing and decoding alone, of records in memory. The datasets are made on
the first run, in --data_dir. Needs the `bench` extra.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

NAMES = ("tabular", "tokens", "small_png", "jpeg")
ENGINES = ("tfjax_batches", "tfds", "clu", "grain_map", "grain_loader", "limit")
PEERS = ENGINES[1:-1]
WARM_UP_SECONDS = 2.0
TURN_TIMEOUT_SECONDS = 1200  # the first turn of a workload makes its dataset

Results = dict[str, dict[str, list[dict[str, float]]]]
"""workload → engine → a result per round."""


def measure(engine: str, name: str, options: argparse.Namespace) -> dict[str, float]:
    """Return what one turn of an engine measured; runs in a process of its own."""
    # Here: the parent process needs neither, and JAX reads its flags once.
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
    batches = make_batches()
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


def count_batches(batches: Any, seconds: float) -> float:
    """Return batches a second that are ready on all devices."""
    import jax

    start, count = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        jax.block_until_ready(next(batches))
        count += 1
    return count / (time.perf_counter() - start)


def run_turn(
    engine: str, names: list[str], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Return what an engine measured on some workloads, from a process of its own."""
    command = [sys.executable, __file__, *names, "--turn", engine, "--data_dir", options.data_dir]
    command += ["--seconds", str(options.seconds), *(["--quick"] if options.quick else [])]
    environment = {
        # Before JAX starts: a 2 × 2 mesh on any machine.
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=TURN_TIMEOUT_SECONDS,
    )
    if done.returncode:
        sys.exit(f"{engine} on {', '.join(names)} failed:\n{done.stderr[-4000:]}")
    results: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return results


def run_rounds(options: argparse.Namespace) -> Results:
    """Return all results; engines take turns."""
    results: Results = {name: {e: [] for e in options.engines} for name in options.workloads}
    # Memory is measured a process, so each workload has one; --quick has no time for that.
    runs = [options.workloads] if options.quick else [[name] for name in options.workloads]
    for names in runs:
        for number in range(1 if options.quick else options.rounds):
            for engine in options.engines:
                for name, result in run_turn(engine, names, options).items():
                    results[name][engine].append(result)
                    line = f"{name} round {number + 1} {engine}: {result['rate']:,.0f}/s"
                    print(line, file=sys.stderr, flush=True)
    return results


def ratios_of(engines: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Return our median rate against that of the best peer and of the limit."""
    medians = {
        engine: statistics.median(result["rate"] for result in each)
        for engine, each in engines.items()
    }
    ours = medians.get("tfjax_batches", float("nan"))
    best = max((medians[peer] for peer in PEERS if peer in medians), default=float("nan"))
    return {"best_peer": ours / best, "limit": ours / medians.get("limit", float("nan"))}


def print_table(name: str, engines: dict[str, list[dict[str, float]]]) -> None:
    """Print median, spread, first batch and memory of each engine, and the ratios."""
    print(f"\n{name}: examples/s on 2 × 2 CPU devices, shuffled")
    print(
        f"{'engine':14} {'median':>9} {'lowest':>9} {'highest':>9} {'ours is':>9}"
        f" {'CPU/example':>12} {'first batch':>12} {'peak memory':>12}"
    )
    ours = statistics.median(r["rate"] for r in engines.get("tfjax_batches", [{"rate": 0.0}]))
    for engine, results in engines.items():
        rates = [result["rate"] for result in results]
        median = statistics.median(rates)
        line = f"{engine:14} {median:9,.0f} {min(rates):9,.0f} {max(rates):9,.0f}"
        line += f" {ours / median:7.2f} ×"
        cpu_us = statistics.median(result["cpu_us"] for result in results)
        line += f" {cpu_us:9,.1f} µs"
        if engine != "limit":
            first = statistics.median(result["first_seconds"] for result in results)
            peak = statistics.median(result["peak_mb"] for result in results)
            line += f" {first:10.2f} s {peak:9,.0f} MB"
        print(line)
    ratios = ratios_of(engines)
    print(f"{ratios['best_peer']:.2f} × the best peer, {ratios['limit']:.2f} of the limit")


def parse_arguments() -> argparse.Namespace:
    """Return the options, with lists made of comma-separated texts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--engines", default=",".join(ENGINES), help="joined by commas")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn")
    parser.add_argument("--quick", action="store_true", help="small data, one short round")
    parser.add_argument("--json", metavar="FILE", help="also write all results here")
    default = os.path.join(tempfile.gettempdir(), "tfjax_batches_bench")
    parser.add_argument("--data_dir", default=default, help="of the datasets that are made")
    parser.add_argument("--turn", metavar="ENGINE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.engines = options.engines.split(",")
    options.workloads = options.workloads or list(NAMES)
    for given, known in ((options.workloads, NAMES), (options.engines, ENGINES)):
        if unknown := sorted(set(given) - set(known)):
            parser.error(f"{unknown[0]!r} is none of {', '.join(known)}")
    return options


def main() -> None:
    """Run all turns and print the tables."""
    options = parse_arguments()
    if options.turn:
        measured = {name: measure(options.turn, name, options) for name in options.workloads}
        print(json.dumps(measured), flush=True)
        return
    results = run_rounds(options)
    for name, engines in results.items():
        print_table(name, engines)
    if options.json:
        content = {
            name: {"ratios": ratios_of(engines), "engines": engines}
            for name, engines in results.items()
        }
        with open(options.json, "w") as file:
            json.dump(content, file, indent=2)


if __name__ == "__main__":
    main()

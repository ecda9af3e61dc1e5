# SPDX-License-Identifier: Apache-2.0
"""Compares ways to read from far storage: 30 ms a request, 200 MB/s over all requests.

    python scripts/bench_far.py [WORKLOAD ...] [--engines A,B] [--rounds 3] [--seconds 5]
    python scripts/bench_far.py --quick   # small data, one short round: shows that it runs

Engines take turns for several rounds, each in its own process, and read the same files through
`far_store.py`, which is mounted anew for each turn. `tfds` is a stream with a shuffle buffer and
16 files interleaved. `global` and `block` are orders of this library, with the index of the records
known; `cached` is the second epoch of `block` with a chunk cache. `local_…` engines read the same
files without the store. `blocks` is the time that fetching the blocks of a first batch takes at
least. Trust medians and ratios: the machine may be shared. The first run writes the datasets to
--data_dir. Needs the `bench` extra, libfuse 3 (Debian: libfuse3-3) and /dev/fuse.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import bench
import bench_report
import far_store

EXAMPLES = {"tabular": 200_000, "tokens": 100_000, "jpeg": 3_000, "records_100kb": 4_000}
NUM_FILES = 16
FIELDS: dict[str, dict[str, Any]] = {
    "global": {"shuffle": "global"},
    "block": {"shuffle": "block"},
    "cached": {"shuffle": "block"},
    "local_global": {"shuffle": "global", "reading": "map"},
    "local_block": {"shuffle": "block", "reading": "map"},
    "local_range": {"shuffle": "block", "reading": "range"},
}
"""What our engines build with; other fields are the defaults."""

STREAM = "tfds"
ENGINES = (STREAM, *FIELDS)
COUNTS = ("requests", "bytes")
THREADS = 32  # that read, by default


def open_workload(name: str, quick: bool) -> Any:
    """Return a workload of `bench_workloads`, in 16 files."""
    # Imported here: the parent process needs neither JAX nor TensorFlow.
    import bench_workloads

    workload = bench_workloads.WORKLOADS[name]
    workload = dataclasses.replace(workload, num_examples=EXAMPLES[name], num_files=NUM_FILES)
    return bench_workloads.quick(workload) if quick else workload


def prepare(names: list[str], options: argparse.Namespace) -> None:
    """Write the datasets and the indexes of their records, in this process."""
    import bench_engines

    for name in names:
        workload = open_workload(name, options.quick)
        bench_engines.build_loader(workload, options.data_dir).pipeline.group_sizes_at(0)


def measure(engine: str, name: str, options: argparse.Namespace) -> dict[str, float]:
    """Run one turn of an engine in this process, on the datasets in `data_dir`.

    Returns:
        `rate` in examples/s, `cpu_us` in CPU µs an example, `first_seconds` until the first batch,
        `peak_mb` of memory; through the store also `requests` and `bytes` an example; of blocks
        also `fetch_seconds`, which fetching those of the first batch takes at least.
    """
    import bench_engines
    import jax

    workload = open_workload(name, options.quick)
    figures = {}
    if engine == STREAM:
        make_batches = bench_engines.tfds_as_dataset(workload, options.data_dir)
    else:
        fields = {**FIELDS[engine], "cache_dir": options.cache_dir}
        loader = bench_engines.build_loader(workload, options.data_dir, **fields)
        make_batches = functools.partial(iter, loader)
        if options.cache_dir:
            read_epoch(loader)
    start = time.perf_counter()
    batches: Any = make_batches()
    jax.block_until_ready(next(batches))
    figures["first_seconds"] = time.perf_counter() - start
    bench.count_batches(batches, 0.1 if options.quick else bench.WARM_UP_SECONDS)
    cpu_start, counts_start, start = time.process_time(), counts(options), time.perf_counter()
    rate = bench.count_batches(batches, 0.3 if options.quick else options.seconds)
    examples = rate * (time.perf_counter() - start) * workload.batch_size
    figures["rate"] = rate * workload.batch_size
    figures["cpu_us"] = (time.process_time() - cpu_start) / examples * 1e6
    for key, after, before in zip(
        ("requests", "bytes"), counts(options), counts_start, strict=False
    ):
        figures[key] = (after - before) / examples
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    batches.close()
    if engine != STREAM and FIELDS[engine]["shuffle"] == "block":
        figures["fetch_seconds"] = fetch_seconds(loader, options)
    return figures


def read_epoch(loader: Any) -> None:
    """Read an epoch, so that the next one finds it in the chunk cache."""
    with iter(loader) as batches:
        for _ in range(loader.steps_per_epoch):
            next(batches)


def counts(options: argparse.Namespace) -> tuple[int, ...]:
    """Return the requests and bytes that the store has answered; empty without a store."""
    return far_store.read_counts(options.data_dir) if options.is_far else ()


def fetch_seconds(loader: Any, options: argparse.Namespace) -> float:
    """Return the time that fetching the blocks of the first batch takes at least."""
    shape, pipeline = loader.pipeline.plan.sources[0].order.shape, loader.pipeline
    num_bytes = shape.block_columns * shape.block_size * pipeline.readers[0].mean_record_bytes()
    seconds: float = max(
        math.ceil(shape.block_columns / THREADS) * options.latency,
        options.latency + num_bytes / options.bandwidth,
    )
    return seconds


def run_child(arguments: list[str], options: argparse.Namespace, data_dir: str) -> str:
    """Run this script in a new process, and return the last line that it prints."""
    command = [sys.executable, __file__, *arguments, "--data_dir", data_dir]
    command += ["--seconds", str(options.seconds), *(["--quick"] if options.quick else [])]
    command += ["--latency", str(options.latency), "--bandwidth", str(options.bandwidth)]
    environment = {**os.environ, **bench.TURN_ENVIRONMENT}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr[-4000:]}")
    return (done.stdout.splitlines() or [""])[-1]


def run_turn(engine: str, name: str, options: argparse.Namespace) -> dict[str, float]:
    """Run one turn of an engine in a new process, through a new mount if it reads from afar."""
    with contextlib.ExitStack() as stack:
        arguments, data_dir = [name, "--turn", engine], options.data_dir
        if not engine.startswith("local_"):
            data_dir = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(
                far_store.mounted(options.data_dir, data_dir, options.latency, options.bandwidth)
            )
            arguments.append("--is-far")
        if engine == "cached":
            cache_dir = stack.enter_context(tempfile.TemporaryDirectory())
            arguments += ["--cache-dir", cache_dir]
        result: dict[str, float] = json.loads(run_child(arguments, options, data_dir))
    return result


def run_rounds(options: argparse.Namespace) -> bench_report.Results:
    """Let the engines take turns, and return all results."""
    results: bench_report.Results = {
        name: {engine: [] for engine in options.engines} for name in options.workloads
    }
    for name, engines in results.items():
        run_child([name, "--prepare"], options, options.data_dir)
        for number in range(options.rounds):
            for engine, figures in engines.items():
                figures.append(run_turn(engine, name, options))
                line = f"{name} round {number + 1} {engine}: {figures[-1]['rate']:,.0f}/s"
                print(line, file=sys.stderr, flush=True)
        print_table(name, engines)
    return results


def print_table(name: str, engines: dict[str, list[dict[str, float]]]) -> None:
    """Print the medians of each engine, and the ratio of its rate to that of the stream."""
    print(f"\n{name}: examples/s on 2 × 2 CPU devices")
    print(
        f"{'engine':12} {'median':>9} {'lowest':>9} {'highest':>9} {STREAM:>8} {'CPU/ex.':>10}"
        f" {'requests/ex.':>12} {'KB/ex.':>8} {'MB/s':>6} {'first batch':>12} {'blocks':>8}"
        f" {'peak memory':>12}"
    )
    for engine, rounds in engines.items():
        rates = [each["rate"] for each in rounds]
        one = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        line = f"{engine:12} {one['rate']:9,.0f} {min(rates):9,.0f} {max(rates):9,.0f}"
        line += f" {ratio_text(rounds, engines.get(STREAM)):>8} {one['cpu_us']:7,.1f} µs"
        if "bytes" in one:
            line += f" {one['requests']:12.4f} {one['bytes'] / 1e3:8.2f}"
            line += f" {one['bytes'] * one['rate'] / 1e6:6.1f}"
        else:
            line += " " * 29
        line += f" {one['first_seconds']:10.2f} s"
        line += f" {one['fetch_seconds']:6.2f} s" if "fetch_seconds" in one else " " * 9
        print(f"{line} {one['peak_mb']:9,.0f} MB", flush=True)


def ratio_text(ours: list[dict[str, float]], theirs: list[dict[str, float]] | None) -> str:
    """Return the median over the rounds of the ratio of two rates; empty without the second."""
    if not theirs:
        return ""
    ratios = [one["rate"] / other["rate"] for one, other in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.2f} ×"


def parse_arguments() -> argparse.Namespace:
    """Return the options, with comma-separated lists split."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(EXAMPLES))
    parser.add_argument("--engines", default=",".join(ENGINES), help="separated by commas")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each engine")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each turn")
    parser.add_argument("--latency", type=float, default=far_store.LATENCY, help="of a request")
    parser.add_argument("--bandwidth", type=float, default=far_store.BANDWIDTH, help="bytes/s")
    parser.add_argument("--quick", action="store_true", help="small data, one short round")
    parser.add_argument("--json", metavar="FILE", help="write all figures and versions here")
    default = os.path.join(tempfile.gettempdir(), "tfjax_batches_bench_far")
    parser.add_argument("--data_dir", default=default, help="folder for the datasets")
    for flag in ("--prepare", "--is-far"):
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cache-dir", help=argparse.SUPPRESS)
    parser.add_argument("--turn", metavar="ENGINE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.engines = options.engines.split(",")
    options.workloads = options.workloads or list(EXAMPLES)
    for given, known in ((options.workloads, EXAMPLES), (options.engines, ENGINES)):
        if unknown := sorted(set(given) - set(known)):
            parser.error(f"unknown name {unknown[0]!r}; choose from {', '.join(known)}")
    if options.quick:
        options.rounds = 1
    return options


def main() -> None:
    """Run all turns; print and save what they measured."""
    options = parse_arguments()
    if options.prepare:
        prepare(options.workloads, options)
        return
    if options.turn:
        print(json.dumps(measure(options.turn, options.workloads[0], options)), flush=True)
        return
    if not os.path.exists("/dev/fuse"):
        print("bench_far.py mounts a store with latency; this machine has no /dev/fuse.")
        return
    results = run_rounds(options)
    if options.json:
        content = {**bench_report.describe_machine(), "workloads": results}
        bench_report.write_json(options.json, content)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Measures the time from `restore` to the first batch, early and late in a run, and their ratio.

python scripts/bench_restore.py [--rounds 9]
"""

import argparse
import os
import statistics
import time
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import jax
from absl import logging

import tfjax_batches as tjb

BATCH_SIZE = 64
STEPS = (10, 1_000_000)


def seconds_to_first_batch(loader: tjb.BatchLoader, state: dict[str, Any]) -> float:
    start = time.perf_counter()
    with loader.restore(state) as batches:
        jax.block_until_ready(next(batches))
        return time.perf_counter() - start


def main() -> None:
    """Print the median time for each step, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="turns of each step")
    options = parser.parse_args()
    logging.set_verbosity(logging.ERROR)
    loader = tjb.build("digits", global_batch_size=BATCH_SIZE, prepare=True)
    with iter(loader) as batches:
        next(batches)
        state = batches.get_state()
    times: dict[int, list[float]] = {step: [] for step in STEPS}
    for _ in range(options.rounds):
        for step in STEPS:
            at_step = {**state, "position": step * BATCH_SIZE}
            times[step].append(seconds_to_first_batch(loader, at_step))
    early, late = (statistics.median(times[step]) for step in STEPS)
    for step, seconds in zip(STEPS, (early, late), strict=True):
        print(f"restore at step {step:,}: first batch after {seconds * 1e3:.0f} ms")
    print(f"late takes {late / early:.2f} × of early")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Measures how long planning takes, for one dataset and for mixtures of as many examples.

python scripts/bench_plan.py [--rounds 9]

Plans take turns in each round, and a ratio is the median of those of the rounds.
"""

import argparse
import statistics
import time

import numpy as np

from tfjax_batches.planning.mixture_plan import MixedSource, plan_mixture
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Exhausted, Shuffle
from tfjax_batches.planning.selection import WholeSplit

NUM_EXAMPLES = 10_000_000
ROWS = 4096
FIRST_STEP = 1000
STEPS = 30
NUM_SOURCES = (1, 4, 20, 100)


def make_plan(num_sources: int) -> BatchPlan:
    """Return the plan of an endless mixture of sources of random weights; one is a dataset."""
    weights = np.random.default_rng(0).uniform(0.2, 3.0, num_sources)
    names = [f"source_{number}" for number in range(num_sources)]
    split = WholeSplit(num_in_split=NUM_EXAMPLES // num_sources)
    source = MixedSource(selection=split, shuffle=Shuffle.GLOBAL, max_epochs=None)
    return plan_mixture(
        dict.fromkeys(names, source),
        [(0, dict(zip(names, weights.tolist(), strict=True)))],
        global_batch_size=ROWS,
        seed=0,
        exhausted=Exhausted.STOP,
    )


def seconds_a_step(plan: BatchPlan) -> float:
    """Return the time to plan a step, the mean of several."""
    rows = np.arange(ROWS)
    start = time.perf_counter()
    for step in range(FIRST_STEP, FIRST_STEP + STEPS):
        plan.plan_rows(step, rows)
    return (time.perf_counter() - start) / STEPS


def main() -> None:
    """Print the median time of each plan, and its ratio to that of one dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="turns of each plan")
    options = parser.parse_args()
    plans = {count: make_plan(count) for count in NUM_SOURCES}
    # As in a training process: once a large array was freed, glibc holds on to what small ones
    # free. Before, it may give memory back after each step, which can take as long as planning.
    np.ones(2**21)
    rounds = [
        {count: seconds_a_step(plan) for count, plan in plans.items()}
        for _ in range(1 + options.rounds)
    ][1:]
    for count in NUM_SOURCES:
        median = statistics.median(each[count] for each in rounds)
        ratio = statistics.median(each[count] / each[1] for each in rounds)
        sources = "1 dataset" if count == 1 else f"{count} sources"
        print(f"{sources:>11}: {median * 1e3:.3f} ms for {ROWS:,} rows, {ratio:.2f} × 1 dataset")


if __name__ == "__main__":
    main()

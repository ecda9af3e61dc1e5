# SPDX-License-Identifier: Apache-2.0
"""Prints how far the counts of mixed sources are from their weights, here and elsewhere.

python scripts/mixture_counts.py     after `scripts/setup bench`, which installs Grain

The largest |rows of a source - weight * position| over all sources, at three positions. tf.data's
`sample_from_datasets` is what SeqIO mixes with; SeqIO itself cannot be installed beside
tensorflow-cpu.
"""

import os
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import grain
import numpy as np
import tensorflow as tf

from tfjax_batches.planning.mixture import Weights

WEIGHTS = (0.5, 0.3, 0.1, 0.05, 0.03, 0.015, 0.005)
POSITIONS = (1_000, 99_999, 100_000, 10_000_000)
SOURCES = len(WEIGHTS)
ENDLESS = 2**40


def count_here(position: int) -> np.ndarray:
    """Return the rows of each source before a position, int64[sources]."""
    return Weights(weights=WEIGHTS).counts_at(position)


def count_grain(position: int) -> np.ndarray:
    """Return the same of Grain, found from the last row of each source before the position."""
    sources = [
        grain.MapDataset.range(number, SOURCES * ENDLESS, SOURCES) for number in range(SOURCES)
    ]
    mixed = grain.MapDataset.mix(sources, weights=list(WEIGHTS))
    counts: dict[int, int] = {}
    while len(counts) < SOURCES:
        position -= 1
        row, source = divmod(int(mixed[position]), SOURCES)
        counts.setdefault(source, row + 1)
    return np.array([counts[source] for source in range(SOURCES)])


def count_sampled(position: int) -> np.ndarray:
    """Return the same of tf.data, which draws the source of each row."""
    sources = [tf.data.Dataset.from_tensors(number).repeat() for number in range(SOURCES)]
    mixed = tf.data.Dataset.sample_from_datasets(sources, list(WEIGHTS), seed=0)
    batches = mixed.take(position).batch(1000).as_numpy_iterator()
    counts = np.zeros(SOURCES, np.int64)
    for batch in batches:
        counts += np.bincount(batch, minlength=SOURCES)
    return counts


def main() -> None:
    """Print a line for each mixer and position."""
    mixers: dict[str, Callable[[int], np.ndarray]] = {
        "tfjax_batches": count_here,
        "Grain": count_grain,
        "sample_from_datasets": count_sampled,
    }
    print(f"{'mixer':22}" + "".join(f"{position:>14,}" for position in POSITIONS))
    for name, count in mixers.items():
        exact = [np.array(WEIGHTS) / sum(WEIGHTS) * position for position in POSITIONS]
        found = [np.abs(count(p) - e).max() for p, e in zip(POSITIONS, exact, strict=True)]
        print(f"{name:22}" + "".join(f"{deviation:>14.2f}" for deviation in found))


if __name__ == "__main__":
    main()

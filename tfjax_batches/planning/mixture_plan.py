# SPDX-License-Identifier: Apache-2.0
"""The plan of a run of several sources, whose weights may change at some steps.

Where a source is used up, which is known before anything is read, the run ends or the other sources
get its rows.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.block_order import WHOLE_SHARE, BlockShape, Shares
from tfjax_batches.planning.epoch_order import make_order
from tfjax_batches.planning.epochs import Epochs
from tfjax_batches.planning.mixture import Mixture, Weights
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Exhausted, Remainder, Shuffle
from tfjax_batches.planning.schedule import MOST_POSITIONS, BatchSize, Schedule
from tfjax_batches.planning.selection import Selection
from tfjax_batches.planning.source_plan import SourcePlan
from tfjax_batches.planning.splitmix import mix, mix_seed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MixedSource:
    """What the plan of a mixture needs to know of a source.

    Attributes:
        selection: The examples of an epoch.
        shuffle: Order within an epoch.
        max_epochs: Passes over the examples, at most; None: endless.
        shape: How BLOCK cuts an epoch; None for other orders.
    """

    selection: Selection
    shuffle: Shuffle
    max_epochs: int | None
    shape: BlockShape | None = None

    @property
    def epochs(self) -> Epochs:
        """How its places fall into epochs."""
        count = self.selection.num_examples
        return Epochs(num_examples=count, length=count, count=self.max_epochs)


def plan_mixture(
    sources: Mapping[str, MixedSource],
    stages: Sequence[tuple[int, Mapping[str, float]]],
    *,
    global_batch_size: BatchSize,
    seed: int,
    exhausted: Exhausted,
) -> BatchPlan:
    """Return the plan of a run of several sources.

    Args:
        sources: By name, in order of the name.
        stages: (first step, weight by name from there on), in order of the step, from step 0. A
            source that is not named has no weight.
        global_batch_size: Rows of a step; it may change at some steps.
        seed: Seed of the run; each source gets one of its own.
        exhausted: What happens where a source has no rows left.

    Raises:
        ConfigError: There would be no step at all.
    """
    schedule = Schedule.of(global_batch_size)
    wanted = [
        (schedule.position_of(step), tuple(float(weights.get(name, 0)) for name in sources))
        for step, weights in stages
    ]
    places = [source.epochs.num_places for source in sources.values()]
    planned, num_rows = _plan_stages(wanted, places, Exhausted(exhausted))
    if num_rows is not None and num_rows < schedule.rows_at(0):
        raise ConfigError(
            f"A run must have a step; with exhausted={str(exhausted)!r} it ends after {num_rows} "
            f"rows, which do not fill global_batch_size={schedule.rows_at(0)}. Lower it, or raise "
            "max_epochs."
        )
    mixture = Mixture(stages=tuple((start, Weights(weights=w)) for start, w in planned))
    return BatchPlan(
        schedule=schedule,
        mixture=mixture,
        sources=tuple(
            _plan_source(source, derive_seed(seed, name), _find_shares(mixture, number))
            for number, (name, source) in enumerate(sources.items())
        ),
        num_rows=num_rows,
        remainder=Remainder.CARRY,
    )


def derive_seed(seed: int, name: str) -> int:
    """Return the seed of a source: equal names in runs of equal seed have equal orders.

    Example:
        >>> derive_seed(0, "web")
        11098689096443895157
    """
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    return int(mix(mix_seed(seed) ^ np.uint64(digest))[0])


def _find_shares(mixture: Mixture, source: int) -> Shares:
    """Return at which of its places a source gets another share of the rows."""
    shares: list[tuple[int, Fraction]] = []
    for start, stage in mixture.stages:
        share = Fraction(stage.weights[source]) / sum(map(Fraction, stage.weights))
        if share and (not shares or shares[-1][1] != share):
            shares.append((int(mixture.counts_at(start)[source]), share))
    return tuple(shares) or WHOLE_SHARE


def _plan_source(source: MixedSource, seed: int, shares: Shares) -> SourcePlan:
    num_examples = source.selection.num_examples
    return SourcePlan(
        epochs=source.epochs,
        order=make_order(source.shuffle, num_examples, seed, source.shape, shares),
        selection=source.selection,
        seed=seed,
    )


def _plan_stages(
    wanted: Sequence[tuple[int, tuple[float, ...]]],
    places: Sequence[int | None],
    exhausted: Exhausted,
) -> tuple[list[tuple[int, tuple[float, ...]]], int | None]:
    """Return the stages, with one more wherever a source is used up, and the rows of the run.

    Args:
        wanted: (first position, weight of each source), in order of the position.
        places: Places of each source; None: endless.
        exhausted: What happens where a source has no rows left.
    """
    stages: list[tuple[int, tuple[float, ...]]] = []
    counts = np.zeros(len(places), np.int64)  # rows of each source before `start`
    stops = [start for start, _ in wanted[1:]] + [MOST_POSITIONS]
    for (start, weights), stop in zip(wanted, stops, strict=True):
        while start < stop:
            left = [
                None if n is None else n - c for n, c in zip(places, counts.tolist(), strict=True)
            ]
            if exhausted is Exhausted.REDISTRIBUTE:
                weights = tuple(0.0 if n == 0 else w for w, n in zip(weights, left, strict=True))
            if not any(weights):
                return stages, start
            end = min(stop, start + _rows_until_used_up(weights, left))
            if end > start:
                stages.append((start, weights))
            if end < stop and exhausted is Exhausted.STOP:
                return stages, end
            counts = counts + Weights(weights=weights).counts_at(end - start)
            start = end
    return stages, None


def _rows_until_used_up(weights: tuple[float, ...], left: Sequence[int | None]) -> int:
    """Return after how many rows a source is first asked for more than it has left."""
    mixed = Weights(weights=weights)
    return min(
        (
            int(mixed.positions_of(source, np.array([rows], np.int64))[0])
            for source, rows in enumerate(left)
            if rows is not None and weights[source] > 0
        ),
        default=MOST_POSITIONS,
    )

# SPDX-License-Identifier: Apache-2.0
"""What reading would cost on storage far away, by order: requests, bytes, memory and time.

From the plan and the metadata alone. A process waits for the larger of two times: what its bytes
take at its bandwidth, and what its requests take at their latency, so many at a time.
"""

import dataclasses
import math
from collections.abc import Iterable

from tfjax_batches.planning.block_order import (
    MOST_LIVE_BYTES,
    BlockOrder,
    BlockShape,
    choose_block_size,
)
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.source_plan import SourcePlan
from tfjax_batches.text.description import Description, Table, facts
from tfjax_batches.text.formatting import bytes_text, count_text

_ROWS_TO_WEIGH = 2**20  # of a run, by which sources count
_MUCH = 1.5  # times longer: worth another order


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How far away files are.

    Attributes:
        latency: Seconds of a request.
        bandwidth: Bytes a second of a process.
        requests: Requests of a process at a time.
    """

    latency: float
    bandwidth: float
    requests: int

    def seconds(self, requests: float, num_bytes: float) -> float:
        """Return how long so many requests of so many bytes in all take among many others."""
        return max(num_bytes / self.bandwidth, requests / self.requests * self.latency)

    def first_seconds(self, requests: float, num_bytes: float) -> float:
        """Return how long they take where nothing was requested before."""
        waits = math.ceil(requests / self.requests)
        return max(num_bytes / self.bandwidth, waits * self.latency)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Costs:
    """Of one process and one order.

    Attributes:
        requests: In a step.
        live_requests: Before the first batch.
        live_bytes: Of what is read and not taken yet; before the first batch, too.
        epoch_requests: In an epoch, of all processes.
    """

    requests: float
    live_requests: float
    live_bytes: float
    epoch_requests: float


def describe_costs(
    title: str,
    plan: BatchPlan,
    layout: BatchLayout,
    process: int,
    example_bytes: Iterable[float],
    storage: Storage,
) -> Description:
    """Return what reading costs under each order, and which is advised.

    Args:
        title: Names the run.
        plan: The order.
        layout: Which rows each process holds.
        process: The process that is described.
        example_bytes: Mean size of the examples of each source; 0: not known.
        storage: How far away files are.
    """
    rows, batch = layout.process_batch_size(process), layout.global_batch_size
    shares = (plan.mixture.counts_at(_ROWS_TO_WEIGH) / _ROWS_TO_WEIGH).tolist()
    sources = list(zip(plan.sources, shares, example_bytes, strict=True))
    step_bytes = sum(rows * share * size for _, share, size in sources)
    by_order = {
        "global": [_costs_of_global(source, rows * share, size) for source, share, size in sources],
        "block": [
            _costs_of_block(source, rows / batch, batch, share, size, len(sources))
            for source, share, size in sources
        ],
    }
    table, times = [], {}
    for order, each in by_order.items():
        requests = sum(costs.requests for costs in each)
        live_bytes = sum(costs.live_bytes for costs in each)
        times[order] = storage.seconds(requests, step_bytes)
        first = storage.first_seconds(sum(costs.live_requests for costs in each), live_bytes)
        table.append(
            (
                f"shuffle={order!r}",
                f"{requests:,.3g}",
                _time_text(times[order]),
                _time_text(first),
                bytes_text(round(live_bytes)),
                f"{sum(costs.epoch_requests for costs in each):,.0f}",
            )
        )
    table.append(("cache_dir, later epochs", "0", "that of the disk", "", "", "0"))
    header = (
        "reading",
        "requests a step",
        "a step",
        "first batch",
        "in memory",
        "an epoch's requests",
    )
    text = (
        f"{count_text(rows, 'row')} and {bytes_text(round(step_bytes))} a step; "
        f"{storage.latency * 1e3:g} ms a request, {storage.requests} at a time, "
        f"{bytes_text(round(storage.bandwidth))} a second"
    )
    return Description(
        f"reading of {title}",
        (
            facts(process=f"{process}: {text}"),
            Table(tuple(table), header),
            facts(advice=_advice(times)),
        ),
    )


def _costs_of_global(source: SourcePlan, rows: float, example_bytes: float) -> _Costs:
    return _Costs(
        requests=rows,
        live_requests=rows,
        live_bytes=rows * example_bytes,
        epoch_requests=source.epochs.num_examples,
    )


def _costs_of_block(
    source: SourcePlan,
    part: float,
    batch: int,
    share: float,
    example_bytes: float,
    num_sources: int,
) -> _Costs:
    """Return the costs of a process that holds a part of the rows of each batch."""
    count = source.epochs.num_examples
    if isinstance(source.order, BlockOrder):
        shape = source.order.shape
    else:
        live_bytes = MOST_LIVE_BYTES / num_sources
        size = choose_block_size(count, example_bytes, batch, live_bytes)
        shape = BlockShape(block_size=size, block_columns=batch)
    blocks = math.ceil(count / shape.block_size)
    ranges = min(blocks + shape.block_columns, count)
    live = min(shape.block_columns, blocks) * part
    return _Costs(
        requests=batch * part * share * ranges / count,
        live_requests=live,
        live_bytes=live * shape.block_size * example_bytes,
        epoch_requests=ranges,
    )


def _advice(times: dict[str, float]) -> str:
    if times["global"] <= _MUCH * times["block"]:
        return "shuffle='global' is nearly as fast here; cache_dir helps from the second epoch on."
    return (
        f"shuffle='block' reads {times['global'] / times['block']:.3g} times as fast; cache_dir "
        "helps from the second epoch on."
    )


def _time_text(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"

# SPDX-License-Identifier: Apache-2.0
"""The description of a mixture: what each source gives to a run, and the weights of its stages."""

from collections.abc import Mapping

import numpy as np

from tfjax_batches.config.mixture_config import MixtureConfig
from tfjax_batches.pipeline.host_pipeline import HostPipeline
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.source_plan import SourcePlan
from tfjax_batches.text.description import Table, facts


def describe_mixture(
    sources: Mapping[str, str], config: MixtureConfig, pipeline: HostPipeline
) -> tuple[Table, ...]:
    """Return the tables of order, of sources and of stages.

    Args:
        sources: Dataset and split of each source, by name.
        config: What the user said.
        pipeline: What this process reads.
    """
    plan, names = pipeline.plan, list(sources)
    steps = "endless" if plan.num_steps is None else f"{plan.num_steps:,}"
    left_out = plan.left_out_at_end
    summary = facts(
        order=f"seed={config.seed}, each source in an order of its own",
        steps=steps + (f"; {left_out:,} rows left out at the end" if left_out else ""),
        exhausted=repr(str(config.exhausted)),
    )
    rows = tuple(
        (name, text, _examples(plan.sources[number]), *_share(plan, number))
        for number, (name, text) in enumerate(sources.items())
    )
    header = ("source", "dataset", "examples", "rows", "share", "epochs", "first step", "last step")
    transforms = tuple(
        (name, "; ".join(function.chain.labels))
        for name, function in zip(names, pipeline.group.sources, strict=True)
        if function.chain.labels
    )
    return (
        summary,
        Table(rows, header),
        Table(transforms, ("source", "transforms")),
        Table(_stages(plan, names), ("from step", "weights")),
    )


def _examples(source: SourcePlan) -> str:
    return source.selection.describe().removesuffix(" examples")


def _share(plan: BatchPlan, source: int) -> tuple[str, ...]:
    """Return rows, share, epochs, first and last step of a source.

    Rows and epochs are those of the whole run. Where it is endless, so are those of the sources of
    its last stage, and shares are those of this stage.
    """
    start, weights = plan.mixture.stages[-1]
    is_endless = plan.num_rows is None and weights.weights[source] > 0
    end = start if plan.num_steps is None else plan.position_of(plan.num_steps)
    count = int(plan.mixture.counts_at(end)[source])
    if plan.num_rows is None:
        share = weights.weights[source] / sum(weights.weights)
    else:
        share = count / max(1, end)
    first, last = "", ""
    if count or is_endless:
        places = np.array([0, max(0, count - 1)])
        positions = plan.mixture.positions_of(source, places).tolist()
        first, last = (f"{plan.schedule.steps_before(each):,}" for each in positions)
    epochs = count / plan.sources[source].epochs.num_examples
    return (
        "endless" if is_endless else f"{count:,}",
        f"{100 * share:.3g} %",
        "endless" if is_endless else f"{epochs:.3g}",
        first,
        "endless" if is_endless else last,
    )


def _stages(plan: BatchPlan, names: list[str]) -> tuple[tuple[str, ...], ...]:
    """Return the first step of each stage, exact where one begins within a batch, and weights."""
    return tuple(
        (
            f"{plan.schedule.fraction_of(start):g}",
            ", ".join(f"{n} {w:g}" for n, w in zip(names, stage.weights, strict=True) if w),
        )
        for start, stage in plan.mixture.stages
    )

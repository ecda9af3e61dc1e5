# SPDX-License-Identifier: Apache-2.0
"""The description of a run: dataset, order, rows of each process, features and memory."""

from collections.abc import Mapping

import jax

from tfjax_batches.config.batch_config import BatchConfig, Config
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Path, path_text
from tfjax_batches.pipeline.host_pipeline import HostPipeline
from tfjax_batches.placing.array_shards import bytes_of, shard_bytes
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.showing.batch import array_text, sharding_text
from tfjax_batches.showing.block_description import describe_blocks
from tfjax_batches.showing.mixture_description import describe_mixture
from tfjax_batches.text.description import Description, Table, facts
from tfjax_batches.text.formatting import bytes_text, count_text

DeviceSpecs = Mapping[Path, jax.ShapeDtypeStruct]
"""Global shape, dtype and sharding of each array, by path."""


def describe_run(
    sources: Mapping[str, str],
    config: Config,
    layouts: Mapping[int, BatchLayout],
    pipeline: HostPipeline,
    device_specs: DeviceSpecs,
) -> Description:
    """Return sources, order, layout, features and memory of a run.

    Args:
        sources: Dataset and split of each source, by name.
        config: What the user said.
        layouts: Global batch size → which rows each process holds.
        pipeline: What this process reads.
        device_specs: Global shape, dtype and sharding of each array, by path.
    """
    plan = pipeline.plan
    layout = layouts[plan.global_batch_size]
    rows = layout.describe()
    if isinstance(config, BatchConfig):
        (title,) = sources.values()
        order = f"shuffle={str(config.shuffle)!r}, seed={config.seed}"
        summary = facts(
            examples=plan.sources[0].selection.describe().removesuffix(" examples"),
            order="as in the split" if config.shuffle == "none" else order,
            steps=_steps_text(plan),
            remainder=_remainder_text(plan),
            transforms="; ".join(pipeline.group.sources[0].chain.labels),
        )
        tables: tuple[Table, ...] = (summary,)
    else:
        title = f"mixture of {count_text(len(sources), 'source')}"
        tables = describe_mixture(sources, config, pipeline)
    return Description(
        title,
        (
            *tables,
            describe_blocks(sources, plan, layout, pipeline.process_index, pipeline.example_bytes),
            Table(rows=(("batch", rows.title), *rows.tables[0].rows)),
            *rows.tables[1:],
            _sizes_table(layouts, plan, pipeline.process_index),
            _features_table(device_specs, pipeline.host_specs, plan.global_batch_size),
            _memory_facts(config, layouts, pipeline.process_index, device_specs),
        ),
    )


def _steps_text(plan: BatchPlan) -> str:
    count = plan.sources[0].epochs.count
    epochs = "" if count is None else f" in {count_text(count, 'epoch')}"
    run = "endless" if plan.num_steps is None else f"{plan.num_steps:,}{epochs}"
    return f"{run}; {plan.steps_per_epoch:,} per epoch"


def _remainder_text(plan: BatchPlan) -> str:
    text = plan.remainder.describe(plan.num_examples, plan.global_batch_size)
    at_end = plan.left_out_at_end
    text += f"; {count_text(at_end, 'example')} left out at the end" if at_end else ""
    return f"{str(plan.remainder)!r}: {text}"


def _sizes_table(layouts: Mapping[int, BatchLayout], plan: BatchPlan, process: int) -> Table:
    """Return at which steps the shapes of batches change; empty where they do not."""
    sizes = [size for size in plan.schedule.sizes if size[0] < plan.most_steps]
    sizes = sizes if len(sizes) > 1 else []
    rows = tuple(
        (f"{step:,}", f"{size:,}", f"{layouts[size].process_batch_size(process):,}")
        for step, size in sizes
    )
    return Table(rows, ("shapes from step", "rows of a batch", f"of them on process {process}"))


def _features_table(
    device_specs: DeviceSpecs, host_specs: Mapping[Path, FeatureSpec], rows: int
) -> Table:
    on_devices = (
        (
            path_text(path),
            array_text(spec.dtype, spec.shape),
            sharding_text(spec),
            str(list(spec.sharding.shard_shape(spec.shape))),
            bytes_text(bytes_of(spec.dtype, spec.shape)),
        )
        for path, spec in device_specs.items()
    )
    on_host = (
        (
            path_text(path),
            f"{spec.describe()} per row",
            "on the host",
            "",
            _host_bytes_text(spec, rows),
        )
        for path, spec in host_specs.items()
    )
    header = ("feature", "array", "sharding", "on a device", "bytes per step")
    return Table((*on_devices, *on_host), header)


def _host_bytes_text(spec: FeatureSpec, rows: int) -> str:
    if not spec.is_fixed or spec.is_string:
        return "varies"
    return bytes_text(bytes_of(spec.dtype, (rows, *spec.fixed_shape)))


def _memory_facts(
    config: Config, layouts: Mapping[int, BatchLayout], process: int, device_specs: DeviceSpecs
) -> Table:
    """Return the bytes of the largest batches on all devices, on this process and on one device."""
    specs = device_specs.values()
    depth, cap_bytes = config.prefetch_depth, config.prefetch_bytes
    first, largest = next(iter(layouts)), max(layouts)
    layout = layouts[largest]
    # `device_specs` are of the first size; bytes grow with the rows.
    whole = sum(bytes_of(spec.dtype, spec.shape) for spec in specs) * largest // first
    device = sum(map(shard_bytes, specs)) * largest // first
    # Not `local_bytes`: the mesh of a dry run has no devices.
    on_process = device * layout.process_of_device.count(process)
    cap = "" if cap_bytes is None else f", capped at {bytes_text(cap_bytes)}"
    title = "step" if len(layouts) == 1 else "largest step"
    return facts(
        **{
            title: f"{bytes_text(whole)} in all, process {process} reads "
            f"{count_text(layout.process_batch_size(process), 'row')} of it; "
            f"{bytes_text(on_process)} on its devices, {bytes_text(device)} on each",
            "buffer": f"{count_text(depth, 'batch', 'batches')}, "
            f"{bytes_text(depth * on_process)} on the devices of process {process}{cap}",
        }
    )

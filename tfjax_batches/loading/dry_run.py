# SPDX-License-Identifier: Apache-2.0
"""`dry_run`: the loader that a process of other machines would have."""

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow_datasets as tfds
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from tfjax_batches.config.batch_config import BatchConfig, Config, make_config, sources_of
from tfjax_batches.config.mixture_config import MixtureConfig, Source
from tfjax_batches.errors import ConfigError, LayoutError
from tfjax_batches.loading.accelerators import hide_accelerators_from_tensorflow
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.loading.open_source import naming_source
from tfjax_batches.loading.wiring import Destination, for_each_size, make_loader, open_run
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.schedule import Schedule
from tfjax_batches.preprocess.filter import FilterExamples, check_filter
from tfjax_batches.preprocess.transforms import Transform
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.prepare import prepare, reopen
from tfjax_batches.text.formatting import count_text


def dry_run(
    config: BatchConfig | MixtureConfig | Mapping[str, Any] | str | tfds.core.DatasetBuilder,
    layout: BatchLayout,
    *,
    process_index: int = 0,
    transforms: Sequence[Transform] = (),
    filter: FilterExamples | None = None,
    **fields: Any,
) -> BatchLoader:
    """Return the loader that a process of `layout` would have, from the dataset's metadata.

    Reads records only for `filter`, and asks for no device. `describe()`, `element_spec` (its
    shardings are on an `AbstractMesh`, which `jax.jit(f).trace` takes), `num_steps` and
    `plan_step` are those of the real run. `host_batches()` and `dataset()` read what that process
    would. It cannot be iterated over: there are no devices to place batches on.

    Args:
        config: As for `build`.
        layout: The machines, as `BatchLayout.simulate` gives them.
        process_index: The process whose rows are read.
        transforms: As for `build`.
        filter: As for `build`; it reads the split, unless an earlier run saved the result.
        **fields: Fields of `BatchConfig` or `MixtureConfig`. `global_batch_size` is that of the
            layout, and may be left out; of sizes by step, the first is.

    Returns:
        The loader of that process.

    Raises:
        ConfigError: A field is wrong, or the batch size differs from that of the layout; or
            `layout` is no `BatchLayout`.
        LayoutError: There is no such process, or it owns no device; or a spec does not fit its
            feature.
        BatchesError: As for `build`.

    Example::

        pod = tjb.BatchLayout.simulate({"data": 256}, "data", 1024, process_of_device=64)
        print(tjb.dry_run("digits", pod).describe())
    """
    _check_machines(layout, process_index)
    rows = layout.global_batch_size
    given = make_config(config, fields, "dry_run")
    size = given.global_batch_size
    checked = dataclasses.replace(given, global_batch_size=rows if size == 0 else size).checked()
    if Schedule.of(checked.global_batch_size).rows_at(0) != rows:
        raise ConfigError(
            f"A dry run has the batch size of its layout, {rows}; got global_batch_size="
            f"{size}. Leave it out, or make the layout with it."
        )
    sources = sources_of(checked, filter)
    for source in sources.values():
        check_filter(source.filter)
    hide_accelerators_from_tensorflow()
    opened = {}
    for name, source in sources.items():
        with naming_source(name):
            opened[name] = source, _open_builder(source)
    run = open_run(checked, _place(checked, layout, int(process_index)), opened, transforms)
    return make_loader(run, [each.select() for each in run.sources])


def _open_builder(source: Source) -> tfds.core.DatasetBuilder:
    """Open a dataset; prepare it where it is missing and its source says so."""
    builder = open_builder(source.dataset, source.data_dir)
    if not source.prepare:
        return builder
    prepare(builder)
    return reopen(builder)


def _check_machines(layout: object, process_index: object) -> None:
    if not isinstance(layout, BatchLayout):
        raise ConfigError(
            f"The machines of a dry run are a BatchLayout; got a {type(layout).__name__}. "
            "Pass BatchLayout.simulate(...), or BatchLayout.from_sharding(...) of a sharding."
        )
    if isinstance(process_index, bool) or not isinstance(process_index, numbers.Integral):
        raise ConfigError(f"process_index must be an integer; got {process_index!r}.")
    count = layout.process_count
    if not 0 <= int(process_index) < count:
        raise LayoutError(
            f"A layout of {count_text(count, 'process', 'processes')} has 0 <= process < {count}; "
            f"got process {process_index}. Name one of them."
        )


def _place(config: Config, layout: BatchLayout, process_index: int) -> Destination:
    names, sizes = zip(*layout.mesh_shape, strict=True) if layout.mesh_shape else ((), ())
    mesh = AbstractMesh(sizes, names)
    return Destination(
        layouts=for_each_size(config, layout.resized),
        process_index=process_index,
        sharding=NamedSharding(mesh, PartitionSpec(*layout.spec)),
        feature_shardings={
            feature: NamedSharding(mesh, PartitionSpec(*spec))
            for feature, spec in layout.feature_specs
        },
    )

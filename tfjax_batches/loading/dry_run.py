# SPDX-License-Identifier: Apache-2.0
"""`dry_run`: the loader of a process of machines that one does not have."""

import numbers
from collections.abc import Sequence
from typing import Any

import tensorflow_datasets as tfds
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from tfjax_batches.config.batch_config import BatchConfig, config_from
from tfjax_batches.errors import ConfigError, LayoutError
from tfjax_batches.loading.building import hide_accelerators_from_tensorflow, make_loader
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.pipeline.filter_scan import find_selection
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.partition_spec import Spec
from tfjax_batches.preprocess.filter import FilterExamples, check_filter
from tfjax_batches.preprocess.transforms import Transform
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.prepare import prepare, reopen
from tfjax_batches.text.formatting import count_text


def dry_run(
    config: BatchConfig | str | tfds.core.DatasetBuilder,
    layout: BatchLayout,
    *,
    process_index: int = 0,
    transforms: Sequence[Transform] = (),
    filter: FilterExamples | None = None,
    **fields: Any,
) -> BatchLoader:
    """Return the loader that a process of `layout` would have, from the dataset's metadata.

    No record is read, but by `filter`, and no device is asked for. `describe()`, `element_spec`
    (its shardings are on an `AbstractMesh`, which `jax.jit(f).trace` takes), `num_steps` and
    `plan_step` are those of the real run; `host_batches()` and `dataset()` read what that process
    would. There are no devices to place batches on, so it cannot be iterated over.

    Args:
        config: A `BatchConfig`, or a dataset (name, folder or builder).
        layout: The machines, as `BatchLayout.simulate` gives them.
        process_index: The process whose rows are read.
        transforms: As for `build`.
        filter: As for `build`; it reads the split, unless what it keeps is known from before.
        **fields: Fields of `BatchConfig`. `global_batch_size` is that of the layout, and need not
            be given.

    Raises:
        ConfigError: A field is wrong, or the batch size is not that of the layout; or that is no
            `BatchLayout`.
        LayoutError: There is no such process, or it owns no device; or a spec does not fit its
            feature.
        BatchesError: As for `build`.

    Example::

        pod = tjb.BatchLayout.simulate({"data": 256}, "data", 1024, process_of_device=64)
        print(tjb.dry_run("digits", pod).describe())
    """
    _check_machines(layout, process_index)
    rows = layout.global_batch_size
    stated = fields.get("global_batch_size", getattr(config, "global_batch_size", 0))
    if stated not in (0, rows):
        raise ConfigError(
            f"A dry run has the batch size of its layout, {rows}; got global_batch_size={stated}. "
            "Leave it out, or make the layout with it."
        )
    checked = config_from(config, {**fields, "global_batch_size": rows}, "dry_run")
    chosen = check_filter(filter)
    hide_accelerators_from_tensorflow()
    builder = open_builder(checked.dataset, checked.data_dir)
    if checked.prepare:
        prepare(builder)
        builder = reopen(builder)
    mesh = _abstract_mesh(layout)
    loader, source = make_loader(
        checked,
        builder,
        layout,
        int(process_index),
        _on(mesh, layout.spec),
        {feature: _on(mesh, spec) for feature, spec in layout.feature_specs},
        transforms,
    )
    return (
        loader if chosen is None else loader.keeping(find_selection(chosen, source, loader._reader))
    )


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
            f"A layout of {count_text(count, 'process', 'processes')} has those of "
            f"0 <= process < {count}; got process {process_index}. Name one of them."
        )


def _abstract_mesh(layout: BatchLayout) -> AbstractMesh:
    names, sizes = zip(*layout.mesh_shape, strict=True) if layout.mesh_shape else ((), ())
    return AbstractMesh(sizes, names)


def _on(mesh: AbstractMesh, spec: Spec) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*spec))

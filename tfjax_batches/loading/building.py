# SPDX-License-Identifier: Apache-2.0
"""`build`: a config and a sharding become a loader. Wiring, no logic of its own."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging
from jax.sharding import NamedSharding

from tfjax_batches.config.batch_config import BatchConfig, config_from
from tfjax_batches.errors import ConfigError, LayoutError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import HOST
from tfjax_batches.loading.agreement import check_agreement, run_together
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.loading.state import make_fingerprint
from tfjax_batches.pipeline.filter_scan import find_selection
from tfjax_batches.pipeline.host_features import check_device_features, choose_host_paths
from tfjax_batches.pipeline.host_pipeline import batch_specs
from tfjax_batches.placing.assemble import device_dtype
from tfjax_batches.placing.sharding import check_feature_names, data_sharding, feature_sharding
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.order import ORDER_VERSION
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.row_multiple import check_row_multiple
from tfjax_batches.planning.selection import Selection
from tfjax_batches.preprocess.chain import (
    Chain,
    build_chain,
    check_transforms,
    find_encoded,
    find_row_multiple,
    label_of,
    name_of,
)
from tfjax_batches.preprocess.filter import FilterExamples, check_filter
from tfjax_batches.preprocess.registry import build_transforms
from tfjax_batches.preprocess.transforms import Transform
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.label_names import find_label_names
from tfjax_batches.reading.prepare import prepare, reopen
from tfjax_batches.reading.split import Split, open_split


def build(
    config: BatchConfig | str | tfds.core.DatasetBuilder,
    sharding: NamedSharding | None = None,
    *,
    feature_shardings: Mapping[str, NamedSharding] | None = None,
    transforms: Sequence[Transform] = (),
    filter: FilterExamples | None = None,
    **fields: Any,
) -> BatchLoader:
    """Return the loader of a config, reading the dataset's metadata only, but for `filter`.

    With more than one process every process calls it, with equal arguments. No other call of
    this library waits for another process.

    Args:
        config: A `BatchConfig`, or a dataset (name, folder or builder) whose further fields come
            as keywords.
        sharding: Sharding of every feature; its first spec entry names the data axes, and its
            spec is cut to the rank of each feature. None: dim 0 over all devices.
        feature_shardings: Shardings by feature path, on the same mesh, in place of `sharding`.
        transforms: `MapExamples` and `MapBatches`, applied in order after the ops of
            `preprocess`. Each is traced and checked here, before any data is read.
        filter: Which examples there are, by a function of their features. It is evaluated once over
            the split, and what it keeps is found again by its name. None: all.
        **fields: Fields of `BatchConfig`, in place of those of `config`.

    Raises:
        ConfigError: A field is wrong; all faults are named at once. Or a transform fails, or
            depends on more than its features and its seed, such as `tf.random.uniform`.
        DatasetNotFoundError: No such dataset, or it is not prepared.
        SplitError: No such split, or an empty one, or `filter` keeps nothing.
        FeatureError: A feature cannot become an array, or a transform returns one without a
            value of known shape for each row; names both.
        LayoutError: The sharding cannot hold the batch, or rows that a transform mixes would be on
            different processes.
        AgreementError: The processes differ, or `build` failed on another one.
        UnsupportedError: The dataset is stored in a way that cannot be read by index.

    Example::

        loader = tjb.build("digits", global_batch_size=64, prepare=True)
        with iter(loader) as batches:
            for batch in batches:
                ...
    """
    checked, chosen = run_together(lambda: (config_from(config, fields), check_filter(filter)))
    check_agreement(_config_facts(checked) | _keep_facts(chosen))
    hide_accelerators_from_tensorflow()
    builder = _open(checked)
    loader, source = run_together(
        lambda: _build_alone(checked, builder, sharding, feature_shardings, transforms)
    )
    if chosen is not None:
        loader = _keep(chosen, loader, source)
    check_agreement(_data_facts(loader, source))
    _log_summary(loader, source)
    return loader


def _open(config: BatchConfig) -> tfds.core.DatasetBuilder:
    """Open the dataset; where asked to, prepare it on process 0 first, then where it is missing."""
    builder = run_together(lambda: open_builder(config.dataset, config.data_dir))
    if not config.prepare:
        return builder
    for turn in (jax.process_index() == 0, jax.process_index() != 0):
        run_together(lambda turn=turn: prepare(builder) if turn else None)  # type: ignore[misc]
    return run_together(lambda: reopen(builder))


def _keep(keep: FilterExamples, loader: BatchLoader, source: Split) -> BatchLoader:
    """Find the kept examples on process 0 first, then where its file is not seen."""
    found: list[Selection] = []

    def find() -> None:
        found.append(find_selection(keep, source, loader._reader))

    for turn in (jax.process_index() == 0, jax.process_index() != 0):
        run_together(find if turn else lambda: None)
    return loader.keeping(found[0])


def _build_alone(
    config: BatchConfig,
    builder: tfds.core.DatasetBuilder,
    sharding: NamedSharding | None,
    feature_shardings: Mapping[str, NamedSharding] | None,
    transforms: Sequence[Transform],
) -> tuple[BatchLoader, Split]:
    """Return this process's loader and its source, without a word to the other processes."""
    sharding = data_sharding() if sharding is None else sharding
    layout = BatchLayout.from_sharding(sharding, config.global_batch_size, feature_shardings)
    return make_loader(
        config,
        builder,
        layout,
        jax.process_index(),
        sharding,
        dict(feature_shardings or {}),
        transforms,
    )


def make_loader(
    config: BatchConfig,
    builder: tfds.core.DatasetBuilder,
    layout: BatchLayout,
    process_index: int,
    sharding: NamedSharding,
    own_shardings: Mapping[str, NamedSharding],
    transforms: Sequence[Transform],
) -> tuple[BatchLoader, Split]:
    """Return the loader of a process of the layout, and its source; asks JAX for no device."""
    own_transforms = check_transforms(transforms)
    all_transforms = (*build_transforms(config.preprocess), *own_transforms)
    _check_process_has_rows(layout, process_index)
    source = open_split(builder, config.split)
    _check_row_multiple(all_transforms, layout, config)
    decoder = Decoder(
        source.features,
        config.features,
        source.name,
        encoded=find_encoded(all_transforms),
        pad_to=config.pad_to,
    )
    chain = build_chain(all_transforms, decoder.specs)
    host_paths = choose_host_paths(chain.specs, config.keep_on_host, decoder.padded, source.name)
    check_device_features(chain.specs, host_paths, source.name, decoder.parsed, chain.origin_of)
    plan = BatchPlan(
        num_examples=source.num_examples,
        global_batch_size=config.global_batch_size,
        shuffle=Shuffle(config.shuffle),
        seed=config.seed,
        num_epochs=config.num_epochs,
        remainder=Remainder(config.remainder),
    )
    specs = batch_specs(config, chain.specs, host_paths, source.num_examples)
    host_specs = {path: spec for path, spec in specs.items() if path.startswith(f"{HOST}/")}
    device_specs = {path: spec for path, spec in specs.items() if path not in host_specs}
    check_feature_names(own_shardings, device_specs)
    loader = BatchLoader(
        config=config,
        layout=layout,
        plan=plan,
        process_index=process_index,
        fingerprint=make_fingerprint(
            plan,
            dataset=source.name,
            examples=source.resolved,
            features=list(decoder.specs),
            keep_on_host=sorted(host_paths),
            pad_to=config.pad_to,
            preprocess=config.preprocess,
            transforms=[name_of(transform) for transform in own_transforms],
            graphs={tf.__version__: chain.digest_of_last(len(own_transforms))}
            if own_transforms
            else None,
        ),
        label_names=find_label_names(source.features, _label_paths(chain)),
        _flat_spec=_device_specs(device_specs, config.global_batch_size, sharding, own_shardings),
        _host_specs=host_specs,
        _reader=open_reader(source, verify_crc=config.verify_crc),
        _decoder=decoder,
        _chain=chain,
    )
    return loader, source


def _check_row_multiple(
    transforms: Sequence[Transform], layout: BatchLayout, config: BatchConfig
) -> None:
    """Raise where rows that transforms mix are not together on a process and in a group."""
    row_multiple = find_row_multiple(transforms)
    if row_multiple == 1:
        return
    names = ", ".join(
        label_of(transform, place)
        for place, transform in enumerate(transforms)
        if find_row_multiple([transform]) > 1
    )
    check_row_multiple(layout, row_multiple, names)
    if config.group_size is not None and config.group_size < row_multiple:
        raise ConfigError(
            f"A group holds the {row_multiple} rows that {names} mixes; "
            f"group_size={config.group_size}. Raise it to {row_multiple}, or leave it out."
        )


def _label_paths(chain: Chain) -> list[str]:
    """Return the features that are still what they were when decoded, for all that is known."""
    return [
        path
        for path, spec in chain.specs.items()
        if (before := chain.before.get(path)) is not None
        and spec.shape == before.shape
        and spec.dtype.kind in "iu"
    ]


def _device_specs(
    specs: Mapping[str, FeatureSpec],
    global_batch_size: int,
    sharding: NamedSharding,
    own_shardings: Mapping[str, NamedSharding],
) -> dict[str, jax.ShapeDtypeStruct]:
    """Return global shape, dtype on the device and sharding of each entry of a batch."""
    device_specs = {}
    for path, spec in specs.items():
        shape = (global_batch_size, *spec.fixed_shape)
        placed = feature_sharding(path, shape, sharding, own_shardings)
        device_specs[path] = jax.ShapeDtypeStruct(shape, device_dtype(spec.dtype), sharding=placed)
    return device_specs


def _check_process_has_rows(layout: BatchLayout, process_index: int) -> None:
    if process_index not in layout.process_of_device:
        raise LayoutError(
            "Each process that loads owns devices of the mesh; process "
            f"{process_index} owns none of {layout.describe().title}. "
            "Make the mesh of jax.devices(), which are those of all processes."
        )


def _config_facts(config: BatchConfig) -> dict[str, Any]:
    """Return the fields that must be equal on all processes: those that change the data."""
    may_differ = {
        "data_dir",
        "dataset",  # may be a folder of this machine; the dataset's own name is compared later
        "prefetch_depth",
        "prefetch_bytes",
        "stall_seconds",
        "group_size",
        "num_parallel_calls",
        "threadpool_size",
        "ram_budget_bytes",
        "verify_crc",
    }
    names = [field.name for field in dataclasses.fields(config) if field.name not in may_differ]
    facts = {name: getattr(config, name) for name in names}
    facts["features"] = config.features and sorted(config.features)  # their order means nothing
    return facts


def _keep_facts(filter: FilterExamples | None) -> dict[str, Any]:
    return {"keep": None if filter is None else [filter.name, *filter.features]}


def _data_facts(loader: BatchLoader, source: Split) -> dict[str, Any]:
    """Return what dataset and sharding turned out to be, and the version of the order."""
    kept = loader.plan.kept
    facts = {
        "dataset": source.name,
        "ranges": source.describe_ranges(),
        "mesh": loader.layout.mesh_shape,
        "spec": loader.layout.spec,
        "feature specs": loader.layout.feature_specs,
        "order version": ORDER_VERSION,
        "transforms": [stage.label for stage in loader._chain.stages],
        "graphs of transforms": loader._chain.digest,
        "kept examples": kept and [kept.describe(), kept.digest],
    }
    for path, spec in loader.device_specs.items():
        mesh = spec.sharding.mesh
        facts["devices"] = [device.id for device in mesh.devices.flat]
        facts["axis types"] = str(getattr(mesh, "axis_types", None))
        facts[f"{path} on the device"] = [str(spec.dtype), spec.sharding.memory_kind]
    return facts


def hide_accelerators_from_tensorflow() -> None:
    """Leave the accelerators to JAX: TensorFlow would take most of their memory."""
    for kind in ("GPU", "TPU"):
        if not tf.config.list_physical_devices(kind):
            continue
        try:
            tf.config.set_visible_devices([], kind)
        except RuntimeError:
            logging.warning(
                "TensorFlow started before tfjax_batches.build and holds %ss; JAX may find their "
                "memory taken. Call build before any TensorFlow op, or hide them with "
                "tf.config.set_visible_devices([], %r).",
                kind,
                kind,
            )


def _log_summary(loader: BatchLoader, source: Split) -> None:
    logging.info("tfjax_batches: %s\n%s", source.name, loader.describe())
    if left_over := loader.plan.rows_left_over:
        logging.warning(
            "tfjax_batches: %d of %d examples are left out %s, since they do not fill a batch of "
            "%d; remainder='pad' keeps them.",
            left_over,
            loader.num_examples,
            "of each epoch" if loader.config.remainder is Remainder.DROP else "at the end",
            loader.config.global_batch_size,
        )

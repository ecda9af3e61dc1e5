# SPDX-License-Identifier: Apache-2.0
"""From a checked config to a loader, on one process, without asking JAX for devices.

In two steps, since a filter selects examples between them: `open_run` opens the split,
`make_loader` makes the plan and all that follows.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import tensorflow as tf
import tensorflow_datasets as tfds
from jax.sharding import NamedSharding

from tfjax_batches.config.batch_config import BatchConfig
from tfjax_batches.config.op_grammar import parse_ops
from tfjax_batches.errors import ConfigError, LayoutError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Name, Path, path_text
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.loading.state import Fingerprint, make_fingerprint
from tfjax_batches.pipeline.group_function import GroupFunction, id_dtype
from tfjax_batches.pipeline.host_features import check_device_features, choose_host_paths
from tfjax_batches.pipeline.host_pipeline import HostPipeline, ReadOptions
from tfjax_batches.pipeline.source_function import SourceFunction
from tfjax_batches.placing.assemble import device_dtype
from tfjax_batches.placing.sharding import feature_sharding, shardings_by_path
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.row_multiple import check_row_multiple
from tfjax_batches.planning.selection import Selection, WholeSplit
from tfjax_batches.preprocess.chain import (
    build_chain,
    find_encoded,
    find_row_multiple,
    label_of,
    to_transforms,
)
from tfjax_batches.preprocess.registry import (
    OPS_VERSION,
    bind_call,
    build_transforms,
    is_library_op,
)
from tfjax_batches.preprocess.transforms import Transform
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader, open_reader
from tfjax_batches.reading.label_names import find_label_names
from tfjax_batches.reading.split import Split, open_split


@dataclasses.dataclass(frozen=True, kw_only=True)
class Destination:
    """Where batches go; fields as in `build` and `BatchLoader`."""

    layout: BatchLayout
    process_index: int
    sharding: NamedSharding
    feature_shardings: Mapping[Name, NamedSharding]

    def __post_init__(self) -> None:
        if self.process_index not in self.layout.process_of_device:
            raise LayoutError(
                "Each process that loads owns devices of the mesh; process "
                f"{self.process_index} owns none of {self.layout.describe().title}. "
                "Make the mesh of jax.devices(), which are those of all processes."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A run whose split is open and whose plan is not made yet.

    Attributes:
        transforms: Those of the ops of `preprocess`, then those given to `build`.
    """

    config: BatchConfig
    destination: Destination
    split: Split
    reader: RecordReader
    transforms: tuple[Transform, ...]


def open_run(
    config: BatchConfig,
    destination: Destination,
    builder: tfds.core.DatasetBuilder,
    transforms: Sequence[Transform],
) -> OpenRun:
    """Return the run of a prepared dataset; reads its metadata only."""
    split = open_split(builder, config.split)
    return OpenRun(
        config=dataclasses.replace(config, split=split.split),
        destination=destination,
        split=split,
        reader=open_reader(split, verify_crc=config.verify_crc),
        transforms=(*build_transforms(config.preprocess), *to_transforms(transforms)),
    )


def make_loader(run: OpenRun, selection: Selection | None) -> BatchLoader:
    """Return the loader of a run over the examples that a filter selected, or over all: None."""
    config, split, destination = run.config, run.split, run.destination
    _check_row_multiple(run)
    plan = plan_dataset(
        selection or WholeSplit(num_in_split=split.num_examples),
        global_batch_size=config.global_batch_size,
        shuffle=Shuffle(config.shuffle),
        seed=config.seed,
        num_epochs=config.num_epochs,
        remainder=Remainder(config.remainder),
    )
    pipeline = HostPipeline(
        plan=plan,
        rows=destination.layout.rows(destination.process_index),
        readers=(run.reader,),
        group=_make_group(run, plan),
        process_index=destination.process_index,
        options=ReadOptions.from_config(config),
    )
    return BatchLoader(
        config=config,
        layout=destination.layout,
        pipeline=pipeline,
        fingerprint=_fingerprint(run, pipeline),
        label_names=find_label_names(split.features, _label_paths(pipeline)),
        global_specs=_global_specs(pipeline.device_specs, destination),
    )


def _make_group(run: OpenRun, plan: BatchPlan) -> GroupFunction:
    """Return what becomes of the records of a group, once all features have a place to go."""
    config, name = run.config, run.split.name
    decoder = Decoder(
        run.split.features,
        config.features,
        name,
        encoded=find_encoded(run.transforms),
        pad_to=config.pad_to,
    )
    chain = build_chain(run.transforms, decoder.specs)
    host_paths = choose_host_paths(chain.specs, config.keep_on_host, decoder.padded, name)
    check_device_features(chain.specs, host_paths, name, decoder.parsed, chain.origin_of)
    return GroupFunction(
        sources=(SourceFunction(decoder=decoder, chain=chain),),
        host_paths=host_paths,
        has_mask=plan.remainder.has_mask,
        id_dtype=id_dtype(run.split.num_examples) if config.with_ids else None,
    )


def _check_row_multiple(run: OpenRun) -> None:
    """Raise where rows that transforms mix are not together on a process and in a group."""
    multiple = find_row_multiple(run.transforms)
    if multiple == 1:
        return
    names = ", ".join(
        label_of(transform, place)
        for place, transform in enumerate(run.transforms)
        if find_row_multiple([transform]) > 1
    )
    check_row_multiple(run.destination.layout, multiple, names)
    if run.config.group_size is not None and run.config.group_size < multiple:
        raise ConfigError(
            f"A group holds the {multiple} rows that {names} mixes; "
            f"group_size={run.config.group_size}. Raise it to {multiple}, or leave it out."
        )


def _fingerprint(run: OpenRun, pipeline: HostPipeline) -> Fingerprint:
    """Return what the rows of a run depend on."""
    config, group = run.config, pipeline.group
    (source,) = group.sources
    calls = parse_ops(config.preprocess)
    # Where the function is the user's, only its graph tells whether it is still the same.
    own = [place for place, call in enumerate(calls) if not is_library_op(call.name)]
    own += range(len(calls), len(run.transforms))
    return make_fingerprint(
        pipeline.plan,
        {
            "dataset": run.split.name,
            "examples": list(run.split.resolved),
            "features": sorted(map(path_text, source.decoder.specs)),
            "keep_on_host": sorted(map(path_text, group.host_paths)),
            "pad_to": {path_text(name): length for name, length in config.pad_to.items()},
            "ops": [bind_call(call) for call in calls],
            "ops_version": OPS_VERSION if calls else None,
            "transforms": list(source.chain.names[len(calls) :]),
            # Another release of TensorFlow may trace one function to another graph.
            "graphs": {tf.__version__: source.chain.digest(own)} if own else {},
        },
    )


def _label_paths(pipeline: HostPipeline) -> list[Path]:
    """Return the integer features that reach the batch as TFDS decoded them."""
    chain = pipeline.group.sources[0].chain
    return [path for path in chain.unchanged_paths if chain.specs[path].dtype.kind in "iu"]


def _global_specs(
    specs: Mapping[Path, FeatureSpec], destination: Destination
) -> dict[Path, jax.ShapeDtypeStruct]:
    """Return global shape, dtype on the device and sharding of each entry of a batch."""
    own = shardings_by_path(destination.feature_shardings, specs)
    global_specs = {}
    for path, spec in specs.items():
        shape = (destination.layout.global_batch_size, *spec.fixed_shape)
        placed = feature_sharding(path, shape, destination.sharding, own)
        global_specs[path] = jax.ShapeDtypeStruct(shape, device_dtype(spec.dtype), sharding=placed)
    return global_specs

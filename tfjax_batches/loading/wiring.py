# SPDX-License-Identifier: Apache-2.0
"""From a checked config to a loader, on one process, without asking JAX for devices.

In two steps, since filters select examples between them: `open_run` opens the splits, `make_loader`
makes the plan and all that follows. A run of one dataset is a mixture of one source here.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax
import tensorflow_datasets as tfds
from absl import logging
from jax.sharding import NamedSharding

from tfjax_batches.config.batch_config import BatchConfig, Config
from tfjax_batches.config.mixture_config import MixtureConfig, Source
from tfjax_batches.config.reading import Reading
from tfjax_batches.errors import ConfigError, LayoutError, UnsupportedError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Name, Path, path_text
from tfjax_batches.loading.fingerprint import Fingerprint, make_fingerprint
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.loading.open_source import OpenSource, naming_source, open_source
from tfjax_batches.pipeline.group_function import GroupFunction, id_dtype
from tfjax_batches.pipeline.host_features import check_device_features, choose_host_paths
from tfjax_batches.pipeline.host_pipeline import HostPipeline, ReadOptions
from tfjax_batches.pipeline.same_features import check_same_features
from tfjax_batches.pipeline.source_function import SourceFunction
from tfjax_batches.placing.assemble import device_dtype
from tfjax_batches.placing.sharding import feature_sharding, shardings_by_path
from tfjax_batches.planning.block_order import (
    MOST_LIVE_BYTES,
    BlockShape,
    choose_block_size,
    choose_columns,
)
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.epoch_order import GlobalOrder
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.mixture_plan import MixedSource, plan_mixture
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Exhausted, Remainder, Shuffle
from tfjax_batches.planning.row_multiple import check_row_multiple
from tfjax_batches.planning.schedule import Schedule
from tfjax_batches.planning.selection import Selection, WholeSplit
from tfjax_batches.preprocess.chain import build_chain, find_row_multiple, label_of
from tfjax_batches.preprocess.transforms import Transform
from tfjax_batches.reading.chunk_cache import open_cache
from tfjax_batches.reading.read_pool import ReadPool
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.tfrecord.partial_scan import Part

T = TypeVar("T")

_MANY_REQUESTS = 10_000  # of an epoch; fewer are over soon


def for_each_size(config: Config, make: Callable[[int], T]) -> dict[int, T]:
    """Return what `make` returns for each global batch size of a checked config.

    Raises:
        LayoutError: As `make` raises it; where there are several sizes, names the first step of it.
    """
    sizes = Schedule.of(config.global_batch_size).sizes
    made: dict[int, T] = {}
    for step, rows in sizes:
        try:
            made[rows] = make(rows)
        except LayoutError as error:
            if len(sizes) == 1:
                raise
            raise LayoutError(f"{error} This is the batch size from step {step} on.") from error
    return made


@dataclasses.dataclass(frozen=True, kw_only=True)
class Destination:
    """Where batches go; fields as in `build` and `BatchLoader`.

    Attributes:
        layouts: Global batch size → layout; that of step 0 first.
    """

    layouts: Mapping[int, BatchLayout]
    process_index: int
    sharding: NamedSharding
    feature_shardings: Mapping[Name, NamedSharding]

    @property
    def process_count(self) -> int:
        """Processes that own devices of the mesh."""
        return next(iter(self.layouts.values())).process_count

    def __post_init__(self) -> None:
        layout = next(iter(self.layouts.values()))  # all are on one mesh
        if self.process_index not in layout.process_of_device:
            raise LayoutError(
                "Each process that loads owns devices of the mesh; process "
                f"{self.process_index} owns none of {layout.describe().title}. "
                "Make the mesh of jax.devices(), which are those of all processes."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A run whose splits are open and whose plan is not made yet.

    Attributes:
        sources: In order of their names.
        pool: The threads that wait for storage.
    """

    config: Config
    destination: Destination
    sources: tuple[OpenSource, ...]
    pool: ReadPool = dataclasses.field(default_factory=ReadPool)

    def naming(self, source: OpenSource) -> AbstractContextManager[None]:
        """Return a context that adds to errors which source of a mixture they are about."""
        return naming_source(source.name if isinstance(self.config, MixtureConfig) else "")


def open_run(
    config: Config,
    destination: Destination,
    sources: Mapping[str, tuple[Source, tfds.core.DatasetBuilder]],
    transforms: Sequence[Transform],
) -> OpenRun:
    """Return the run of prepared datasets; reads their metadata only."""
    opened = []
    options = ReaderOptions(
        verify_crc=config.verify_crc,
        reading=Reading(config.reading),
        pool=ReadPool(config.read_threads),
        part=Part(destination.process_index, destination.process_count),
        cache=open_cache(config.cache_dir, config.cache_bytes),
    )
    for name, (source, builder) in sources.items():
        with naming_source(name):
            opened.append(open_source(name, source, builder, transforms, options))
    if isinstance(config, MixtureConfig):
        config = dataclasses.replace(config, sources={each.name: each.source for each in opened})
    else:
        config = dataclasses.replace(config, split=opened[0].split.split)
    return OpenRun(config=config, destination=destination, sources=tuple(opened), pool=options.pool)


def make_loader(run: OpenRun, selections: Sequence[Selection | None]) -> BatchLoader:
    """Return the loader of a run over the examples that filters selected, or over all: None."""
    config, destination = run.config, run.destination
    _check_row_multiple(run)
    functions = _make_functions(run)
    plan = _make_plan(
        run,
        [
            selection or WholeSplit(num_in_split=each.split.num_examples)
            for each, selection in zip(run.sources, selections, strict=True)
        ],
    )
    _warn_of_requests(run, plan)
    _warn_of_lost_stages(config, plan)
    pipeline = HostPipeline(
        plan=plan,
        rows={
            size: layout.rows(destination.process_index)
            for size, layout in destination.layouts.items()
        },
        readers=tuple(each.reader for each in run.sources),
        example_bytes=tuple(each.split.example_bytes for each in run.sources),
        group=_make_group(run, functions, has_mask=plan.remainder.has_mask),
        process_index=destination.process_index,
        source_names=(
            tuple(each.name for each in run.sources) if isinstance(config, MixtureConfig) else ()
        ),
        pool=run.pool,
        options=ReadOptions.from_config(config),
    )
    return BatchLoader(
        config=config,
        layouts=destination.layouts,
        pipeline=pipeline,
        fingerprint=_fingerprint(run, pipeline),
        sources={each.name: each.describe() for each in run.sources},
        label_names=_label_names(run, functions),
        global_specs=_global_specs(pipeline.device_specs, plan.global_batch_size, destination),
    )


def _make_functions(run: OpenRun) -> list[SourceFunction]:
    """Return what becomes of the records of each source; one function where that is the same."""
    made: dict[tuple[str, str], SourceFunction] = {}
    functions = []
    for each in run.sources:
        with run.naming(each):
            decoder = each.make_decoder()
            # The transforms given to `build` are the same for all.
            key = decoder.key, each.source.preprocess
            if key not in made:
                chain = build_chain(each.transforms, decoder.specs)
                made[key] = SourceFunction(decoder=decoder, chain=chain)
            functions.append(made[key])
    return functions


def _make_plan(run: OpenRun, selections: Sequence[Selection]) -> BatchPlan:
    config = run.config
    if isinstance(config, BatchConfig):
        return plan_dataset(
            selections[0],
            global_batch_size=config.global_batch_size,
            shuffle=Shuffle(config.shuffle),
            shape=_block_shape(run, run.sources[0], selections[0]),
            seed=config.seed,
            num_epochs=config.num_epochs,
            remainder=Remainder(config.remainder),
        )
    mixed = {
        each.name: MixedSource(
            selection=selection,
            shuffle=Shuffle(each.source.shuffle),
            max_epochs=each.source.max_epochs,
            shape=_block_shape(run, each, selection),
        )
        for each, selection in zip(run.sources, selections, strict=True)
    }
    stages: Any = config.weights  # in their checked form
    return plan_mixture(
        mixed,
        stages,
        global_batch_size=config.global_batch_size,
        seed=config.seed,
        exhausted=Exhausted(config.exhausted),
    )


def _block_shape(run: OpenRun, source: OpenSource, selection: Selection) -> BlockShape | None:
    """Return how an epoch of a source is cut into blocks; None: it is not."""
    given, split = source.source, source.split
    if given.shuffle is not Shuffle.BLOCK:
        return None
    columns = given.block_columns or choose_columns(run.destination.layouts)
    live_bytes = MOST_LIVE_BYTES / len(run.sources)
    size = given.block_size or choose_block_size(
        selection.num_examples, split.example_bytes, columns, live_bytes
    )
    fields = ("block_size", "block_columns")
    chosen = frozenset(name for name in fields if getattr(given, name) is None)
    return BlockShape(block_size=size, block_columns=columns, chosen=chosen)


def _warn_of_lost_stages(config: Config, plan: BatchPlan) -> None:
    """Log where a run ends before a stage of its weights begins."""
    stages: Any = config.weights if isinstance(config, MixtureConfig) else ()
    late = [step for step, _ in stages if plan.num_steps is not None and step >= plan.num_steps]
    if late:
        logging.warning(
            "tfjax_batches: the weights from step %d on are never reached: the run ends after %d "
            "steps, when sources have had their max_epochs. Raise these, or let stages begin "
            "earlier.",
            late[0],
            plan.num_steps,
        )


def _warn_of_requests(run: OpenRun, plan: BatchPlan) -> None:
    """Log once where each example takes a request of its own, and how to read with fewer."""
    if run.config.cache_dir is not None or run.destination.process_index != 0:
        return
    for source, of_plan in zip(run.sources, plan.sources, strict=True):
        count = of_plan.epochs.num_examples
        is_global = isinstance(of_plan.order, GlobalOrder)
        if is_global and count >= _MANY_REQUESTS and source.reader.reads_ranges():
            columns = choose_columns(run.destination.layouts)
            size = choose_block_size(count, source.split.example_bytes, columns)
            logging.warning(
                "tfjax_batches: %s is read from afar with shuffle='global': an epoch makes %s "
                "requests. shuffle='block' makes about %s, and cache_dir=… keeps what was read on "
                "a disk of this machine; `python -m tfjax_batches plan` compares them.",
                source.describe(),
                f"{count:,}",
                f"{min(count, count // size + columns):,}",
            )


def _make_group(
    run: OpenRun, functions: Sequence[SourceFunction], *, has_mask: bool
) -> GroupFunction:
    """Return what becomes of the records of a group, once all features have a place to go."""
    config, first, name = run.config, functions[0], run.sources[0].split.name
    specs = first.chain.specs
    each_specs = [function.chain.specs for function in functions]
    check_same_features({s.name: each for s, each in zip(run.sources, each_specs, strict=True)})
    padded = frozenset().union(*(function.decoder.padded for function in functions))
    host_paths = choose_host_paths(specs, config.keep_on_host, padded, name)
    check_device_features(specs, host_paths, name, first.decoder.parsed, first.chain.origin_of)
    most_examples = max(each.split.num_examples for each in run.sources)
    return GroupFunction(
        sources=tuple(functions),
        host_paths=host_paths,
        has_mask=has_mask,
        id_dtype=id_dtype(most_examples) if config.with_ids else None,
        # An index means nothing without the source that it is of.
        has_sources=isinstance(config, MixtureConfig) and (config.with_sources or config.with_ids),
    )


def _check_row_multiple(run: OpenRun) -> None:
    """Raise where rows that transforms mix are not together on a process and in a group."""
    multiple = find_row_multiple([t for each in run.sources for t in each.transforms])
    if multiple == 1:
        return
    mixing = [
        label_of(transform, place)
        for each in run.sources
        for place, transform in enumerate(each.transforms)
        if find_row_multiple([transform]) > 1
    ]
    names = ", ".join(dict.fromkeys(mixing))
    if isinstance(run.config, MixtureConfig):
        raise UnsupportedError(
            f"In a mixture the rows next to each other are of several sources; {names} mixes "
            f"{multiple} rows. Leave it out, and mix rows on the device, in the training step."
        )
    layouts = run.destination.layouts
    for_each_size(run.config, lambda rows: check_row_multiple(layouts[rows], multiple, names))
    if run.config.group_size is not None and run.config.group_size < multiple:
        raise ConfigError(
            f"A group holds the {multiple} rows that {names} mixes; "
            f"group_size={run.config.group_size}. Raise it to {multiple}, or leave it out."
        )


def _fingerprint(run: OpenRun, pipeline: HostPipeline) -> Fingerprint:
    """Return what the rows of a run depend on."""
    group = pipeline.group
    fields = {"keep_on_host": sorted(map(path_text, group.host_paths))}
    each = {
        source.name: source.fingerprint(function)
        for source, function in zip(run.sources, group.sources, strict=True)
    }
    if isinstance(run.config, MixtureConfig):
        return make_fingerprint(pipeline.plan, {**fields, "seed": run.config.seed}, each)
    return make_fingerprint(pipeline.plan, {**fields, **next(iter(each.values()))})


def _label_names(run: OpenRun, functions: Sequence[SourceFunction]) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes of labels, where all sources have the same."""
    first, *others = [
        each.label_names(function) for each, function in zip(run.sources, functions, strict=True)
    ]
    return {k: v for k, v in first.items() if all(other.get(k) == v for other in others)}


def _global_specs(
    specs: Mapping[Path, FeatureSpec], rows: int, destination: Destination
) -> dict[Path, jax.ShapeDtypeStruct]:
    """Return global shape, dtype on the device and sharding of each entry of so many rows."""
    own = shardings_by_path(destination.feature_shardings, specs)
    global_specs = {}
    for path, spec in specs.items():
        shape = (rows, *spec.fixed_shape)
        placed = feature_sharding(path, shape, destination.sharding, own)
        global_specs[path] = jax.ShapeDtypeStruct(shape, device_dtype(spec.dtype), sharding=placed)
    return global_specs

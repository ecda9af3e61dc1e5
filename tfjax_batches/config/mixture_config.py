# SPDX-License-Identifier: Apache-2.0
"""What a user may say about a run of several datasets, as plain dataclasses like `BatchConfig`.

Annotations here must be real types, not strings: `config_flags` reads them to choose a parser.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tfjax_batches.config.field_checks import as_dict, check_fields
from tfjax_batches.config.field_types import (
    AnyFilter,
    BatchSizes,
    DatasetName,
    Lengths,
    Names,
    SplitName,
    StageWeights,
)
from tfjax_batches.config.reading import Reading
from tfjax_batches.config.weight_checks import check_weights
from tfjax_batches.errors import ConfigError, nearest_hint
from tfjax_batches.planning.policies import Exhausted, Shuffle


@dataclasses.dataclass(kw_only=True)
class Source:
    """One dataset of a mixture: what to read, and in which order.

    Attributes:
        dataset: As in `BatchConfig`, and so are all fields that it has too.
        split: Any split expression, or a split object of TFDS.
        data_dir: Folder of prepared datasets. None: TFDS's own default.
        prepare: Download and prepare the dataset when it is not there.
        shuffle: Order of the examples, in each epoch of this source.
        block_size: As in `BatchConfig`.
        block_columns: As in `BatchConfig`.
        max_epochs: Passes over the examples, at most. None: endless.
        features: Features to parse, by name. None: all.
        pad_to: Feature name to the length of its variable first dimension.
        preprocess: Ops applied to the examples of this source, before the `transforms` of `build`.
        filter: A `FilterExamples` that selects examples of this source. None: all.
    """

    dataset: DatasetName = ""
    split: SplitName = "train"
    data_dir: str | None = None
    prepare: bool = False
    shuffle: str = Shuffle.GLOBAL
    block_size: int | None = None
    block_columns: int | None = None
    max_epochs: int | None = None
    features: Names | None = None
    pad_to: Lengths = dataclasses.field(default_factory=dict)
    preprocess: str = ""
    filter: AnyFilter = None


if TYPE_CHECKING:
    Sources: TypeAlias = Mapping[str, Source]
else:
    Sources = object


@dataclasses.dataclass(kw_only=True)
class MixtureConfig:
    """Which datasets make up the batches, and with which weights.

    After any number of rows of a stage, the count of each source differs from weight · rows by less
    than 2: rows come from all sources within each batch. Each source keeps its own order and
    epochs, its seed being made of `seed` and its name. After `preprocess` and transforms the
    features of all sources have equal names, shapes and dtypes. Batches go on over the ends of
    epochs, as under `remainder="carry"`.

    Attributes:
        sources: A `Source`, or a dict of its fields, by name. `_source` and `source_names` are in
            order of the names.
        weights: A number above 0 and below 2**63 by name, of which only the ratios count; or stages
            by step, as in `[(0, {"a": 1}), (40_000, {"a": 0.7, "b": 0.3})]`. A source that a stage
            does not name has no row in it.
        exhausted: What happens where a source has had its `max_epochs`: "stop" ends the run,
            "redistribute" gives its rows to the other sources of the stage.
        global_batch_size: Rows of one step over all processes and sources; or sizes by step:
            `[(0, 256), (10_000, 512)]`.
        seed: Seed of the orders and of random transforms, `0 <= seed < 2**63`.
        keep_on_host: As in `BatchConfig`, and so are all fields that it has too.
        with_ids: Add `_id`, the index of each example in the split of its source, and `_source`.
        with_sources: Add `_source`, int32, the index in `loader.source_names` of each row's source.
            A source that is added may change these indices: names are in order.
        prefetch_depth: Batches ready on the device ahead of the consumer. 0: synchronous.
        prefetch_bytes: Cap on the device memory of those batches, per process. None: no cap.
        stall_seconds: Log a warning each time that `next` has waited so long. None: never.
        group_size: Most rows that are read and decoded in one call. None: chosen.
        num_parallel_calls: Groups decoded at a time. None: tf.data chooses.
        threadpool_size: Threads of the pipeline's own pool. None: TensorFlow's shared pool.
        ram_budget_bytes: Memory that tf.data may plan with. None: tf.data chooses.
        verify_crc: Compare each record that is read with its checksum.
        reading: "map" reads files through memory maps, "range" by requests, many at a time. "auto":
            maps on disks of this machine, ranges on network mounts and remote file systems.
        read_threads: Requests at a time, of this process. None: 32.
        read_ahead_bytes: Bytes of the blocks of `shuffle="block"` that are read in ranges ahead of
            the step that needs them. None: 128 MiB.
        cache_dir: Folder on a disk of this machine that keeps what is read in ranges, in pieces of
            1 MiB, for later epochs and runs; jobs may share it. None: nothing is kept.
        cache_bytes: Most bytes in that folder; what was not read for the longest time is deleted.
            None: half of its disk's free space.

    Example:
        >>> mixture = MixtureConfig(
        ...     sources={"web": Source(dataset="c4"), "books": Source(dataset="pg19")},
        ...     weights={"web": 0.7, "books": 0.3},
        ...     global_batch_size=256,
        ... )
        >>> mixture.checked().weights
        ((0, {'books': 0.3, 'web': 0.7}),)
    """

    sources: Sources = dataclasses.field(default_factory=dict)
    weights: StageWeights = dataclasses.field(default_factory=dict)
    # `str`, so that both "stop" and Exhausted.STOP are right to a type checker and to a flag.
    exhausted: str = Exhausted.STOP
    global_batch_size: BatchSizes = 0
    seed: int = 0
    keep_on_host: Names = ()
    with_ids: bool = False
    with_sources: bool = False
    prefetch_depth: int = 2
    prefetch_bytes: int | None = None
    stall_seconds: float | None = 60.0
    group_size: int | None = None
    num_parallel_calls: int | None = None
    threadpool_size: int | None = None
    ram_budget_bytes: int | None = None
    verify_crc: bool = True
    reading: str = Reading.AUTO
    read_threads: int | None = None
    read_ahead_bytes: int | None = None
    cache_dir: str | None = None
    cache_bytes: int | None = None

    def checked(self) -> "MixtureConfig":
        """Return a copy whose fields are valid, with sources in order of their names.

        Raises:
            ConfigError: Names every field that is wrong, of the sources too.
        """
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        given, weights = plain.pop("sources"), plain.pop("weights")
        checked, errors = check_fields(plain)
        sources, of_sources = _check_sources(given)
        errors += of_sources
        stages, of_weights = check_weights(weights, sources) if sources else ((), [])
        errors += of_weights
        if errors:
            listed = "\n".join(f"  {error}" for error in errors)
            raise ConfigError(f"MixtureConfig cannot be used:\n{listed}")
        return MixtureConfig(sources=sources, weights=stages, **checked)


def _check_sources(given: Any) -> tuple[dict[str, Source], list[str]]:
    """Return the checked sources in order of their names, and a sentence for each error."""
    named = as_dict(given)
    if not named or not all(isinstance(name, str) and name for name in named):
        example = "{'web': tjb.Source(dataset='c4')}"
        return {}, [f"sources must map names to sources; got {given!r}. Write {example}."]
    sources: dict[str, Source] = {}
    errors: list[str] = []
    for name in sorted(named):
        source, of_source = _check_source(f"sources[{name!r}]", named[name])
        sources[name] = source
        errors += of_source
    return sources, errors


def _check_source(label: str, given: Any) -> tuple[Source, list[str]]:
    known = [field.name for field in dataclasses.fields(Source)]
    if isinstance(given, Source):
        values = {name: getattr(given, name) for name in known}
    elif (fields := as_dict(given)) is not None:
        if unknown := [str(name) for name in fields if name not in known]:
            hints = "; ".join(f"{name!r}: {nearest_hint(name, known)}" for name in unknown)
            return Source(), [f"{label} takes the fields of Source; unknown {hints}"]
        values = {name: getattr(Source(**fields), name) for name in known}
    else:
        return Source(), [f"{label} must be a Source; got {given!r}. Write tjb.Source(dataset=…)."]
    checked, errors = check_fields(values, f"{label}.")
    return (Source(), errors) if errors else (Source(**checked), [])

# SPDX-License-Identifier: Apache-2.0
"""What a user may say about a run of batches, as one plain dataclass.

`BatchConfig` is mutable and unchecked, so that `ml_collections.config_flags` can override its
fields one by one; `checked` takes the snapshot that everything else works from. Annotations
here must be real types, not strings: `config_flags` reads them to choose a parser.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from tfjax_batches.config.field_checks import as_dict, check_fields
from tfjax_batches.config.field_types import BatchSizes, DatasetName, Lengths, Names, SplitName
from tfjax_batches.config.mixture_config import MixtureConfig, Source
from tfjax_batches.config.reading import Reading
from tfjax_batches.errors import ConfigError, nearest_hint
from tfjax_batches.planning.policies import Remainder, Shuffle

# Those of `build` that are no fields.
_ARGUMENTS = ("sharding", "feature_shardings", "transforms", "filter")


@dataclasses.dataclass(kw_only=True)
class BatchConfig:
    """Which examples make up the batches, in which order, and how they are prefetched.

    Every global batch is a function of these fields and the step alone. The fields from
    `prefetch_depth` on change speed and memory, never a value.

    Attributes:
        dataset: TFDS `name[/config][:version]`, a prepared versioned folder, or a
            `DatasetBuilder`.
        split: Any TFDS split expression, such as `"train[:90%]"`, or a split object of TFDS, such
            as a `ReadInstruction` or an item of `tfds.even_splits`. Equal on all processes, unlike
            `tfds.split_for_jax_process`. The config of a loader has the ranges of an object as
            text: `"train[0:100]"`.
        data_dir: Folder of prepared datasets, such as `"~/data"`. None: TFDS's own default.
        prepare: Download and prepare the dataset when it is not there: process 0 first, and
            then each machine that does not see the result on its disk.
        global_batch_size: Rows of one step over all processes, padding included; or, under
            `remainder="carry"`, sizes by step: `[(0, 256), (10_000, 512)]`.
        shuffle: Order of the examples; a `Shuffle` or its name: `"global"`, `"block"` or `"none"`.
            Under `"block"` each row of a batch comes from another block of neighbouring examples,
            and a process reads each of its blocks once: for storage where a request takes long.
        block_size: Examples of a block of `shuffle="block"`. None: chosen from the metadata, about
            1 MiB a block, at most 1 GiB of blocks being read over all processes, at least 4 blocks
            for each row in an epoch.
        block_columns: Blocks being read at a time. None: `global_batch_size`, one for each row; of
            sizes by step, their least common multiple or, if that is large, the largest. Where a
            batch size does not divide it, several processes read of one block.
        seed: Seed of the order and of random transforms, `0 <= seed < 2**63`. Equal on all
            processes.
        num_epochs: Passes over the examples. None: endless.
        remainder: What happens where an epoch does not end with a batch; a `Remainder` or its name,
            such as `"pad"`.
        features: Features to parse, by name. `"objects/bbox"` is the feature of just this name,
            as COCO's `"image/filename"` is one, or else `bbox` in the dict `objects`; the tuple
            `("objects", "bbox")` is always the latter. A dict means all below it. None: all.
        keep_on_host: Features left as NumPy under `batch["_host"]`, by name as in `features`. See
            `BatchLoader` for their form.
        pad_to: Feature name to the length that its variable first dimension is cut or
            zero-filled to; adds `<name>_length`, int32, the length before.
        preprocess: Ops applied to the examples in order, such as
            `"decode_random_crop(224)|flip_lr|value_range(-1, 1)"`, before the `transforms` of
            `build`. Names and literal arguments only, so that it may come from a source that is
            not trusted. `features` and `pad_to` name features before it, `keep_on_host` features
            after it. Empty: no op.
        with_ids: Add `_id`, the index of each example in the split; -1 on padding.
        prefetch_depth: Batches ready on the device ahead of the consumer. 0: synchronous.
        prefetch_bytes: Cap on the device memory of those batches, per process. A larger batch is
            made only when `next` asks for it. Where batches grow, the first larger one may exceed
            the cap. None: no cap.
        stall_seconds: Log a warning each time that `next` has waited so long. None: never.
        group_size: Most rows that are read and decoded in one call. None: about 1 MiB of records,
            so a whole batch of small ones, a few rows of large ones.
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
        >>> config = BatchConfig(dataset="mnist", split="train[:90%]", global_batch_size=256)
        >>> config.checked().shuffle
        <Shuffle.GLOBAL: 'global'>
    """

    dataset: DatasetName = ""
    split: SplitName = "train"
    data_dir: str | None = None
    prepare: bool = False
    global_batch_size: BatchSizes = 0
    # `str`, so that both "none" and Shuffle.NONE are right to a type checker and to a flag.
    shuffle: str = Shuffle.GLOBAL
    block_size: int | None = None
    block_columns: int | None = None
    seed: int = 0
    num_epochs: int | None = None
    remainder: str = Remainder.CARRY
    features: Names | None = None
    keep_on_host: Names = ()
    pad_to: Lengths = dataclasses.field(default_factory=dict)
    preprocess: str = ""
    with_ids: bool = False
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

    def checked(self) -> "BatchConfig":
        """Return a copy whose fields are valid, with enums in place of their names.

        Raises:
            ConfigError: Names every field that is wrong.
        """
        # Not `dataclasses.asdict`, which would copy a DatasetBuilder.
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        checked, errors = check_fields(values)
        sizes, remainder = checked.get("global_batch_size"), checked.get("remainder")
        if isinstance(sizes, tuple) and remainder not in (None, Remainder.CARRY):
            errors.append(
                f"global_batch_size must be one integer under remainder={str(remainder)!r}; got "
                f"{list(sizes)}. Only remainder='carry' takes sizes by step."
            )
        if errors:
            listed = "\n".join(f"  {error}" for error in errors)
            raise ConfigError(f"BatchConfig cannot be used:\n{listed}")
        return BatchConfig(**checked)


Config: TypeAlias = BatchConfig | MixtureConfig
"""A run of one dataset, or of several."""

MIXTURE_ONLY = frozenset({"sources", "weights", "exhausted", "with_sources"})
"""Fields of `MixtureConfig` that `BatchConfig` has not."""

# What to do about a field that the other kind of config has.
_HINTS: dict[type, dict[str, str]] = {
    BatchConfig: dict.fromkeys(
        MIXTURE_ONLY, "It is of a mixture: give sources={'web': {'dataset': …}} too."
    ),
    MixtureConfig: {
        **{
            field.name: f"Write it in a source: sources={{'web': {{{field.name!r}: …}}}}."
            for field in dataclasses.fields(Source)
        },
        "num_epochs": "Set max_epochs of a Source, and exhausted.",
        "remainder": "A mixture has no end of an epoch; it ends with its last whole batch.",
    },
}


def sources_of(config: Config, filter: Any) -> dict[str, Source]:
    """Return what a run reads, by name; that of one dataset has a source without a name.

    Args:
        config: A checked config.
        filter: The argument `filter` of `build`.

    Raises:
        ConfigError: `filter` is given beside a mixture.
    """
    if isinstance(config, BatchConfig):
        shared = {field.name for field in dataclasses.fields(Source)} & vars(config).keys()
        fields = {name: getattr(config, name) for name in shared}
        return {"": Source(**fields, max_epochs=config.num_epochs, filter=filter)}
    if filter is not None:
        raise ConfigError(
            f"A filter selects examples of one dataset; got filter={filter!r} for a mixture. "
            f"{_HINTS[MixtureConfig]['filter']}"
        )
    return dict(config.sources)


def config_from(config: Any, fields: Mapping[str, Any], caller: str = "build") -> Config:
    """Return the checked config made of `config` and `fields`; arguments as for `make_config`.

    Raises:
        ConfigError: A name is not that of a field, or a value is wrong.
    """
    return make_config(config, fields, caller).checked()


def make_config(config: Any, fields: Mapping[str, Any], caller: str) -> Config:
    """Return the unchecked config made of `config` and `fields`.

    Args:
        config: A `BatchConfig` or `MixtureConfig`, or a dict or `ConfigDict` of the fields of one;
            or a dataset. None: all fields are in `fields`.
        fields: Fields in place of those of `config`.
        caller: The function that took them, for messages.

    Raises:
        ConfigError: A name is not that of a field, or a dataset is given twice or beside a mixture.
    """
    if isinstance(config, MixtureConfig):
        rule = f"{caller}() takes the fields of MixtureConfig as keywords beside one"
        _check_names(fields, MixtureConfig, rule)
        return dataclasses.replace(config, **fields)
    given = {} if config is None else as_dict(config)
    kind = MixtureConfig if "sources" in {**(given or {}), **fields} else BatchConfig
    rule = f"{caller}() takes the fields of {kind.__name__} as keywords"
    _check_names(fields, kind, rule, _ARGUMENTS)
    if kind is MixtureConfig and config is not None and given is None:
        raise ConfigError(
            f"The datasets of a mixture are in its sources; got {config!r} beside them. "
            f"{_HINTS[MixtureConfig]['dataset']}"
        )
    if isinstance(config, BatchConfig):
        return dataclasses.replace(config, **fields)
    if given is not None:
        _check_names(given, kind, f"{caller}() takes a dict of the fields of {kind.__name__}")
        return kind(**{**given, **fields})
    if "dataset" in fields:
        raise ConfigError(
            f"A dataset is given once; got {config!r} and dataset={fields['dataset']!r}. "
            "Drop one of them."
        )
    return BatchConfig(dataset=config, **fields)


def _check_names(
    names: Iterable[Any], kind: type[Config], rule: str, arguments: Iterable[str] = ()
) -> None:
    """Raise ConfigError unless all are names of fields; `arguments` may be meant, too."""
    known = {field.name for field in dataclasses.fields(kind)}
    if unknown := sorted(str(name) for name in names if name not in known):
        hints = (
            f"  {name!r}: {_HINTS[kind].get(name) or nearest_hint(name, {*known, *arguments})}"
            for name in unknown
        )
        raise ConfigError(f"{rule}; unknown:\n" + "\n".join(hints))

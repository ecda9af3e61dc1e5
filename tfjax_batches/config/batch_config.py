# SPDX-License-Identifier: Apache-2.0
"""What a user may say about a run of batches, as one plain dataclass.

`BatchConfig` is mutable and unchecked, so that `ml_collections.config_flags` can override its
fields one by one; `checked` takes the snapshot that everything else works from. Annotations
here must be real types, not strings: `config_flags` reads them to choose a parser.
"""

import dataclasses
import numbers
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tfjax_batches.config.op_grammar import parse_ops
from tfjax_batches.errors import ConfigError, nearest_hint
from tfjax_batches.planning.policies import Remainder, Shuffle

if TYPE_CHECKING:
    import tensorflow_datasets as tfds

    DatasetName: TypeAlias = str | tfds.core.DatasetBuilder
    Lengths: TypeAlias = Mapping[str, int]
else:
    # A flag can only give a name; `config_flags` refuses unions.
    DatasetName = str
    # A flag gives a dict as a literal, which `config_flags` reads for this type alone.
    Lengths = object


@dataclasses.dataclass(kw_only=True)
class BatchConfig:
    """Which examples make up the batches, in which order, and how they are prefetched.

    Every global batch is a function of these fields and the step alone. The fields from
    `prefetch_depth` on change speed and memory, never a value.

    Attributes:
        dataset: TFDS `name[/config][:version]`, a prepared versioned folder, or a
            `DatasetBuilder`.
        split: Any TFDS split expression, such as `"train[:90%]"`.
        data_dir: Folder of prepared datasets. None: TFDS's own default.
        prepare: Download and prepare the dataset when it is not there: process 0 first, and
            then each machine that does not see the result on its disk.
        global_batch_size: Rows of one step over all processes, padding included.
        shuffle: `"none"` or `"global"`, or a `Shuffle`.
        seed: Seed of the order and of random transforms, `0 <= seed < 2**63`. Equal on all
            processes.
        num_epochs: Passes over the examples. None: endless.
        remainder: `"carry"`, `"drop"` or `"pad"`, or a `Remainder`.
        features: Features to parse, by path (`"objects/bbox"`). None: all.
        keep_on_host: Features left as NumPy under `batch["_host"]`, by path; the path of a nested
            dict means all below it. `BatchLoader` tells their form.
        pad_to: Feature path to the length that its variable first dimension is cut or
            zero-filled to; adds `<path>_length`, int32, the length before that.
        preprocess: Ops applied to the examples in order, such as
            `"decode_random_crop(224)|flip_lr|value_range(-1, 1)"`, before the `transforms` of
            `build`. Names and literal arguments only: text that is not trusted can do nothing
            else. `features` and `pad_to` name features before it, `keep_on_host` those that it
            leaves. Empty: none.
        with_ids: Add `_id`, the index of each example in the split; -1 on padding.
        prefetch_depth: Batches ready on the device ahead of the consumer. 0: synchronous.
        prefetch_bytes: Cap on the device memory of those batches, per process. A batch that is
            larger is made when it is asked for. None: no cap.
        stall_seconds: A batch that is later than this is logged, once each such period. None:
            never.
        group_size: Rows that are read and decoded in one call, at most. None: a whole batch of
            small records, a few of large ones.
        num_parallel_calls: Groups decoded at a time. None: tf.data chooses.
        threadpool_size: Threads of the pipeline's own pool. None: TensorFlow's shared pool.
        ram_budget_bytes: Memory that tf.data may plan with. None: tf.data chooses.
        verify_crc: Check the checksum of each record that is read.

    Example:
        >>> config = BatchConfig(dataset="mnist", split="train[:90%]", global_batch_size=256)
        >>> config.checked().shuffle
        <Shuffle.GLOBAL: 'global'>
    """

    dataset: DatasetName = ""
    split: str = "train"
    data_dir: str | None = None
    prepare: bool = False
    global_batch_size: int = 0
    # `str`, so that both "none" and Shuffle.NONE are right to a type checker and to a flag.
    shuffle: str = Shuffle.GLOBAL
    seed: int = 0
    num_epochs: int | None = None
    remainder: str = Remainder.CARRY
    features: tuple[str, ...] | None = None
    keep_on_host: tuple[str, ...] = ()
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

    def checked(self) -> "BatchConfig":
        """Return a copy whose fields are valid, with enums in place of their values.

        Raises:
            ConfigError: Naming every field that is at fault.
        """
        config = dataclasses.replace(self)
        if faults := normalize_fields(config):
            raise ConfigError("BatchConfig cannot be used:\n" + "\n".join(f"  {f}" for f in faults))
        return config


def normalize_fields(config: BatchConfig) -> list[str]:
    """Put valid values in their final types, in place; return a sentence for each other field."""
    faults = [*_enum_faults(config), *_type_faults(config), *_number_faults(config)]
    return [*faults, *_name_faults(config), *_pad_faults(config), *_spec_faults(config)]


def config_from(
    config: BatchConfig | Any, fields: Mapping[str, Any], caller: str = "build"
) -> BatchConfig:
    """Return the checked config made of `config` (a `BatchConfig` or a dataset) and `fields`.

    Args:
        config: A config or a dataset.
        fields: Fields in place of those of `config`.
        caller: The function that took them, for messages.

    Raises:
        ConfigError: A name in `fields` is not a field, or a value is wrong.
    """
    known = {field.name for field in dataclasses.fields(BatchConfig)}
    if unknown := sorted(set(fields) - known):
        hints = "\n".join(f"  {name!r}: {nearest_hint(name, known)}" for name in unknown)
        raise ConfigError(
            f"{caller}() takes the fields of BatchConfig as keywords; unknown:\n{hints}"
        )
    if isinstance(config, BatchConfig):
        return dataclasses.replace(config, **fields).checked()
    if "dataset" in fields:
        raise ConfigError(
            f"A dataset is given once; got {config!r} and dataset={fields['dataset']!r}. "
            "Drop one of them."
        )
    return BatchConfig(dataset=config, **fields).checked()


def _enum_faults(config: BatchConfig) -> list[str]:
    faults = []
    for name, kind in (("shuffle", Shuffle), ("remainder", Remainder)):
        value = getattr(config, name)
        try:
            setattr(config, name, kind(value))
        except ValueError:
            known = [member.value for member in kind]
            hint = nearest_hint(str(value), known)
            faults.append(f"{name} must be one of {known}; got {value!r}. {hint}")
    return faults


def _type_faults(config: BatchConfig) -> list[str]:
    faults = []
    for name in ("prepare", "with_ids", "verify_crc"):
        value = getattr(config, name)
        if not isinstance(value, bool):
            faults.append(f"{name} must be True or False; got {value!r}.")
    for name in ("split", "preprocess"):
        value = getattr(config, name)
        if not isinstance(value, str):
            faults.append(f"{name} must be a string; got {value!r}.")
    data_dir = config.data_dir
    if data_dir is not None and not (isinstance(data_dir, str | os.PathLike) and str(data_dir)):
        faults.append(f"data_dir must name a folder, or be None; got {data_dir!r}.")
    if config.dataset is None or (isinstance(config.dataset, str) and not config.dataset.strip()):
        faults.append(
            "dataset must name a TFDS dataset, a prepared folder or be a DatasetBuilder; "
            f"got {config.dataset!r}."
        )
    return faults


def _number_faults(config: BatchConfig) -> list[str]:
    # name -> (least value, first value beyond, may be None)
    bounds = {
        "global_batch_size": (1, 2**31, False),
        "seed": (0, 2**63, False),
        "num_epochs": (1, 2**31, True),
        "prefetch_depth": (0, 2**31, False),
        "prefetch_bytes": (1, 2**63, True),
        "group_size": (1, 2**31, True),
        # Each is a thread, or what one works on.
        "num_parallel_calls": (1, 2**12, True),
        "threadpool_size": (1, 2**12, True),
        "ram_budget_bytes": (1, 2**63, True),
    }
    faults = []
    for name, (least, beyond, optional) in bounds.items():
        value = getattr(config, name)
        if optional and value is None:
            continue
        # bool is an Integral, and True is no batch size.
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            faults.append(f"{name} must be an integer; got {value!r}.")
        elif not least <= int(value) < beyond:
            faults.append(
                f"{name} must be at least {least} and below 2**{beyond.bit_length() - 1}; "
                f"got {value}."
            )
        else:
            setattr(config, name, int(value))
    return faults + _stall_faults(config)


def _stall_faults(config: BatchConfig) -> list[str]:
    value = config.stall_seconds
    if value is None:
        return []
    # Not `value <= 0`, which a NaN is not.
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < value < 2**31:
        return [
            f"stall_seconds must be a number above 0 and below 2**31; got {value!r}. "
            "None turns it off."
        ]
    config.stall_seconds = float(value)
    return []


def _name_faults(config: BatchConfig) -> list[str]:
    faults = []
    for name in ("features", "keep_on_host"):
        value = getattr(config, name)
        if value is None and name == "features":
            continue
        # A string is a sequence of its letters: the slip is common, and silent.
        if not isinstance(value, tuple | list) or not all(isinstance(item, str) for item in value):
            mend = f" Write ({value!r},)." if isinstance(value, str) else ""
            faults.append(f"{name} must be a tuple of feature names; got {value!r}.{mend}")
        else:
            setattr(config, name, tuple(value))
    if config.features == ():
        faults.append("features must name at least one feature; got (). None means all.")
    return faults


def _pad_faults(config: BatchConfig) -> list[str]:
    value = config.pad_to
    if not isinstance(value, Mapping) or not all(isinstance(path, str) for path in value):
        return [f"pad_to must map feature paths to lengths; got {value!r}. Write {{'path': 16}}."]
    faults = [
        f"pad_to[{path!r}] must be an integer of at least 1 and below 2**31; got {length!r}."
        for path, length in value.items()
        if isinstance(length, bool)
        or not isinstance(length, numbers.Integral)
        or not 1 <= int(length) < 2**31
    ]
    if not faults:
        # In one order, so that equal configs have equal texts on all processes.
        config.pad_to = {path: int(length) for path, length in sorted(value.items())}
    return faults


def _spec_faults(config: BatchConfig) -> list[str]:
    """Return what is no spec; that its ops exist is checked by `build`, which knows them."""
    if not isinstance(config.preprocess, str):
        return []
    try:
        parse_ops(config.preprocess)
    except ConfigError as error:
        return [str(error).replace("\n", "\n  ")]
    return []

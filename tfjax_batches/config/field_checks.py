# SPDX-License-Identifier: Apache-2.0
"""Whether the fields of a config have values that they can have; all are checked at once."""

import enum
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfjax_batches.config.op_grammar import parse_ops
from tfjax_batches.config.reading import Reading
from tfjax_batches.errors import ConfigError, nearest_hint
from tfjax_batches.features.paths import Name, is_feature_name
from tfjax_batches.planning.policies import Exhausted, Remainder, Shuffle
from tfjax_batches.text.numbers import is_integer, is_number

Check = Callable[[str, Any], Any]
"""Takes name and value of a field, returns the value in its final type, raises ConfigError."""


def check_fields(values: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, Any], list[str]]:
    """Return the fields in their final types, and a sentence for each that is wrong.

    Args:
        values: Fields of `BatchConfig`, `MixtureConfig` or `Source` by name.
        prefix: Put before the names in sentences, such as `"sources['a']."`.
    """
    checked: dict[str, Any] = {}
    errors: list[str] = []
    for name, value in values.items():
        try:
            checked[name] = _CHECKS[name](prefix + name, value)
        except ConfigError as error:
            errors.append(str(error).replace("\n", "\n  "))
    if checked.get("shuffle", Shuffle.BLOCK) is not Shuffle.BLOCK:
        errors += [
            f"{prefix}{name} must be None unless {prefix}shuffle='block'; got {checked[name]}. "
            "Leave it out, or set shuffle='block'."
            for name in ("block_size", "block_columns")
            if checked.get(name) is not None
        ]
    return checked, errors


def as_dict(value: Any) -> dict[Any, Any] | None:
    """Return a mapping as a dict; None for anything else.

    A `ConfigDict` of ml_collections counts, though it is not registered as a `Mapping`.
    """
    return dict(value) if hasattr(value, "keys") else None


def rise_from_zero(steps: Sequence[Any]) -> bool:
    """Return whether values are integers below 2**31, the first 0, each above the one before."""
    # Below, positions fit an int64 whatever the batch size.
    are_steps = all(is_integer(step, 0, 2**31 - 1) for step in steps)
    return are_steps and steps[0] == 0 and all(a < b for a, b in itertools.pairwise(steps))


def _integer(least: int, beyond: int, *, optional: bool = False) -> Check:
    """Return the check of an integer, least <= value < beyond; None too, where `optional`."""

    def check(name: str, value: Any) -> int | None:
        if optional and value is None:
            return None
        if not is_integer(value, least, beyond - 1):
            raise ConfigError(
                f"{name} must be an integer of at least {least} and below "
                f"2**{beyond.bit_length() - 1}; got {value!r}."
            )
        return int(value)

    return check


_check_rows = _integer(1, 2**31)


def _check_batch_size(name: str, value: Any) -> Any:
    """Return rows, or (first step, rows) of each size; one size is an integer in any case."""
    if not isinstance(value, list | tuple):
        return _check_rows(name, value)
    if not value or not all(isinstance(each, list | tuple) and len(each) == 2 for each in value):
        raise ConfigError(
            f"{name} must be an integer, or a list of (first step, rows); got {value!r}. "
            "Write [(0, 256), (10_000, 512)]."
        )
    if not rise_from_zero(steps := [step for step, _ in value]):
        raise ConfigError(
            f"{name} must begin at step 0, and each size at a later step below 2**31; got steps "
            f"{steps}. Sort the sizes, and begin with (0, rows)."
        )
    sizes = [(int(step), _check_rows(f"{name} from step {step} on", n)) for step, n in value]
    # A size that stays is no change.
    kept = sizes[:1] + [size for last, size in itertools.pairwise(sizes) if size[1] != last[1]]
    return kept[0][1] if len(kept) == 1 else tuple(kept)


def _member(kind: type[enum.StrEnum]) -> Check:
    def check(name: str, value: Any) -> enum.StrEnum:
        try:
            return kind(value)
        except ValueError:
            known = [member.value for member in kind]
            fix = nearest_hint(value, known) if isinstance(value, str) else f"Write {known[0]!r}."
            raise ConfigError(f"{name} must be one of {known}; got {value!r}. {fix}") from None

    return check


def _names(*, optional: bool = False) -> Check:
    def check(name: str, value: Any) -> tuple[str, ...] | None:
        if optional and value is None:
            return None
        # A string is a sequence of its letters: a common slip, which would pass in silence.
        is_list = isinstance(value, tuple | list)
        if not is_list or not all(map(is_feature_name, value)):
            bad = [each for each in value if not is_feature_name(each)] if is_list else []
            hint = f" Write ({value!r},)." if isinstance(value, str) else ""
            hint = f" {bad[0]!r} is none." if bad else hint
            raise ConfigError(f"{name} must be a tuple of feature names; got {value!r}.{hint}")
        if optional and not value:
            raise ConfigError(f"{name} must name at least one feature; got (). None means all.")
        return tuple(value)

    return check


def _check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False; got {value!r}.")
    return value


def _check_dataset(name: str, value: Any) -> Any:
    # A DatasetBuilder by its method: TFDS is not imported here.
    is_name = isinstance(value, str | os.PathLike) and bool(os.fspath(value).strip())
    if not is_name and not hasattr(value, "download_and_prepare"):
        raise ConfigError(
            f"{name} must name a TFDS dataset, a prepared folder or be a DatasetBuilder; "
            f"got {value!r}."
        )
    return value


def _check_split(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return str(value)  # tfds.Split.TRAIN is a kind of it
    # A split object of TFDS by its method: TFDS is not imported here.
    if not hasattr(value, "to_absolute"):
        raise ConfigError(
            f"{name} must be a string, or a split object of TFDS such as tfds.core."
            f"ReadInstruction('train'); got {value!r}. Join several by +, as in 'train+test'; of "
            "a list, pass one item."
        )
    return value


def _check_folder(name: str, value: Any) -> Any:
    if value is not None and not (isinstance(value, str | os.PathLike) and str(value)):
        raise ConfigError(f"{name} must name a folder, or be None; got {value!r}.")
    return value


def _check_ops(name: str, value: Any) -> str:
    """Check the grammar; that the ops exist is checked by `build`, which knows them."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a string; got {value!r}.")
    parse_ops(value)
    return value


def _check_lengths(name: str, value: Any) -> dict[Name, int]:
    lengths = as_dict(value)
    if lengths is None or not all(map(is_feature_name, lengths)):
        raise ConfigError(
            f"{name} must map feature names to lengths; got {value!r}. Write {{'words': 16}}."
        )
    check = _integer(1, 2**31)
    # In one order, so that equal configs have equal texts on all processes.
    items = sorted(lengths.items(), key=repr)
    return {feature: check(f"{name}[{feature!r}]", length) for feature, length in items}


def _check_seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if not is_number(value) or not 0 < value < 2**31:
        raise ConfigError(
            f"{name} must be a number above 0 and below 2**31; got {value!r}. None turns it off."
        )
    return float(value)


_CHECKS: dict[str, Check] = {
    "dataset": _check_dataset,
    "split": _check_split,
    "data_dir": _check_folder,
    "prepare": _check_flag,
    "global_batch_size": _check_batch_size,
    "shuffle": _member(Shuffle),
    "block_size": _integer(1, 2**31, optional=True),
    "block_columns": _integer(1, 2**31, optional=True),
    "seed": _integer(0, 2**63),
    "num_epochs": _integer(1, 2**31, optional=True),
    "max_epochs": _integer(1, 2**31, optional=True),
    "exhausted": _member(Exhausted),
    "remainder": _member(Remainder),
    "features": _names(optional=True),
    "keep_on_host": _names(),
    "pad_to": _check_lengths,
    "preprocess": _check_ops,
    "with_ids": _check_flag,
    "with_sources": _check_flag,
    "filter": lambda name, value: value,  # checked by `build`: it needs TensorFlow
    "prefetch_depth": _integer(0, 2**31),
    "prefetch_bytes": _integer(1, 2**63, optional=True),
    "stall_seconds": _check_seconds,
    "group_size": _integer(1, 2**31, optional=True),
    # Each is a number of threads, or of groups in work.
    "num_parallel_calls": _integer(1, 2**12, optional=True),
    "threadpool_size": _integer(1, 2**12, optional=True),
    "ram_budget_bytes": _integer(1, 2**63, optional=True),
    "verify_crc": _check_flag,
    "reading": _member(Reading),
    "read_threads": _integer(1, 2**12, optional=True),
    "read_ahead_bytes": _integer(1, 2**63, optional=True),
    "cache_dir": _check_folder,
    "cache_bytes": _integer(1, 2**63, optional=True),
}

# SPDX-License-Identifier: Apache-2.0
"""The fields of `BatchConfig` and `MixtureConfig` as options of commands and as flags.

Name, type, default and documentation come from the classes themselves, so that neither can differ
from them. Lists are written with commas, lengths as `objects/bbox=16,words=8`, batch sizes by step
as `0:256,10000:512`, sources and weights as Python literals, and None as `none`.
"""

import argparse
import ast
import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tfjax_batches.config.batch_config import MIXTURE_ONLY, BatchConfig, Config
from tfjax_batches.config.field_checks import check_fields
from tfjax_batches.config.mixture_config import MixtureConfig
from tfjax_batches.features.paths import path_text
from tfjax_batches.planning.schedule import BatchSize


class OptionError(argparse.ArgumentTypeError, ValueError):
    """A text is no value of its field. argparse prints the first kind of error, absl the second."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldOption:
    """How one field is written; `default` is None for a dict.

    `read` returns the value of a text, or raises ValueError if the text is not as `expected`. It
    does not get the text `none`, which stands for None where `is_optional`. `write` is its inverse.
    """

    name: str
    doc: str
    default: Any
    expected: str
    is_optional: bool
    read: Callable[[str], Any]
    write: Callable[[Any], str]

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for, or raise OptionError."""
        if text == self.default:  # also a dataset that is not named yet
            return self.default
        if self.is_optional and text.lower() == "none":
            return None
        try:
            value = self.read(text)
        except ValueError as error:
            raise OptionError(f"expected {self.expected}; got {text!r}") from error
        if self.name in MIXTURE_ONLY:
            return value  # checked as a whole
        checked, errors = check_fields({self.name: value})
        if errors:
            raise OptionError(errors[0])
        return checked[self.name]


@functools.cache
def field_options() -> dict[str, FieldOption]:
    """Return how each field is written, by name: those of `BatchConfig`, then of mixtures only."""
    of_mixtures = _options_of(MixtureConfig)
    return _options_of(BatchConfig) | {name: of_mixtures[name] for name in sorted(MIXTURE_ONLY)}


def _options_of(kind: type[Config]) -> dict[str, FieldOption]:
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
    docs = {name: re.sub(r"\s+", " ", text.replace("`", "")) for name, text in entries}
    options = {}
    for field in dataclasses.fields(kind):
        is_optional = isinstance(field.type, types.UnionType)
        type_of = typing.get_args(field.type)[0] if is_optional else field.type  # or None
        expected, read, write = _FORMS_BY_NAME.get(field.name) or _FORMS[type_of]
        options[field.name] = FieldOption(
            name=field.name,
            doc=docs.get(field.name, ""),
            default=None if field.default is dataclasses.MISSING else field.default,
            expected=f"{expected}, or none" if is_optional else expected,
            is_optional=is_optional,
            read=read,
            write=write,
        )
    return options


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parse_lengths(text: str) -> dict[str, int]:
    pairs = [part.rpartition("=") for part in _parse_names(text)]
    lengths = {path.strip(): int(length) for path, _, length in pairs}
    if "" in lengths or len(lengths) < len(pairs):
        raise ValueError(text)
    return lengths


def _write_lengths(lengths: Mapping[Any, int]) -> str:
    return ",".join(f"{path_text(name)}={length}" for name, length in lengths.items())


def _parse_batch_size(text: str) -> Any:
    if text.startswith("["):
        return _parse_literal(text)
    if ":" not in text:
        return int(text)
    pairs = [part.partition(":") for part in _parse_names(text)]
    return [(int(step), int(rows)) for step, _, rows in pairs]


def _write_batch_size(size: BatchSize) -> str:
    if isinstance(size, int):
        return str(size)
    return ",".join(f"{step}:{rows}" for step, rows in size)


def _parse_literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(text) from error


_Form: TypeAlias = tuple[str, Callable[[str], Any], Callable[[Any], str]]

_FORMS: dict[Any, _Form] = {
    bool: ("true or false", bool, str),
    int: ("an integer", int, str),
    float: ("a number", float, str),
    str: ("a string", str, str),
    tuple[str, ...]: (
        "names separated by commas",
        _parse_names,
        lambda names: ",".join(map(path_text, names)),
    ),
    object: (
        "lengths such as objects/bbox=16,words=8, each path once",
        _parse_lengths,
        _write_lengths,
    ),
}

# Their annotation is that of lengths: `config_flags` reads literals for no other.
_FORMS_BY_NAME: dict[str, _Form] = {
    "global_batch_size": (
        "an integer, or sizes by step such as 0:256,10000:512",
        _parse_batch_size,
        _write_batch_size,
    ),
    "sources": (
        """a Python dict in quotes, such as "{'web': {'dataset': 'c4'}}\"""",
        _parse_literal,
        repr,
    ),
    "weights": (
        """a Python literal in quotes, such as "{'web': 0.7, 'books': 0.3}" or """
        """"[(0, {'web': 1}), (100, {'web': 0.7, 'books': 0.3})]\"""",
        _parse_literal,
        repr,
    ),
}

# SPDX-License-Identifier: Apache-2.0
"""The fields of `BatchConfig` as options of commands and as flags.

Name, type, default and documentation come from the class itself, so that neither can differ from
it. Lists are written with commas, lengths as `objects/bbox=16,words=8`, and None as `none`.
"""

import argparse
import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

from tfjax_batches.config.batch_config import BatchConfig
from tfjax_batches.config.field_checks import check_fields


class OptionError(argparse.ArgumentTypeError, ValueError):
    """A text is no value of its field. argparse prints the first kind of error, absl the second."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldOption:
    """How one field is written; `default` is None for a dict.

    `read` returns the value of a text, or raises ValueError if the text is not as `expected`. It
    does not get the text `none`, which stands for None where `is_optional`.
    """

    name: str
    doc: str
    default: Any
    expected: str
    is_optional: bool
    read: Callable[[str], Any]

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
        checked, errors = check_fields({self.name: value})
        if errors:
            raise OptionError(errors[0])
        return checked[self.name]


@functools.cache
def field_options() -> dict[str, FieldOption]:
    """Return how each field is written, by name, in the order of `BatchConfig`."""
    section = (inspect.getdoc(BatchConfig) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
    docs = {name: re.sub(r"\s+", " ", text.replace("`", "")) for name, text in entries}
    options = {}
    for field in dataclasses.fields(BatchConfig):
        is_optional = isinstance(field.type, types.UnionType)
        kind = typing.get_args(field.type)[0] if is_optional else field.type  # the other is None
        expected, read = _READERS[kind]
        options[field.name] = FieldOption(
            name=field.name,
            doc=docs.get(field.name, ""),
            default=None if field.default is dataclasses.MISSING else field.default,
            expected=f"{expected}, or none" if is_optional else expected,
            is_optional=is_optional,
            read=read,
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


_READERS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    bool: ("true or false", bool),
    int: ("an integer", int),
    float: ("a number", float),
    str: ("a string", str),
    tuple[str, ...]: ("names separated by commas", _parse_names),
    object: ("lengths such as objects/bbox=16,words=8, each path once", _parse_lengths),
}

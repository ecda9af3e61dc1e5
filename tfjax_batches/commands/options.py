# SPDX-License-Identifier: Apache-2.0
"""The fields of `BatchConfig` as words of a command line.

Name, type, default and documentation come from the class itself, so that flags and commands
cannot say anything else. Lists are written with commas, lengths as `objects/bbox=16,words=8`, and
`none` stands for None.
"""

import dataclasses
import enum
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

from tfjax_batches.config.batch_config import BatchConfig
from tfjax_batches.config.field_checks import check_fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldOption:
    """How one field is written.

    Attributes:
        name: The field.
        doc: What the docstring of `BatchConfig` says of it, on one line.
        default: Its default; None for one that is mutable.
        described: What its text must be.
        choices: The texts that it may be; none: any.
        is_bool: Whether it is written `--name` or `--noname`.
        optional: Whether it may be `none`.
    """

    name: str
    doc: str
    default: Any
    described: str
    choices: tuple[str, ...]
    is_bool: bool
    optional: bool
    _read: Callable[[str], Any]

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for.

        Raises:
            ValueError: It stands for none; says what it must be.
        """
        if self.optional and text.lower() == "none":
            return None
        try:
            return self._read(text)
        except ValueError as error:
            raise ValueError(f"expected {self.described}; got {text!r}") from error

    def find_error(self, value: Any) -> str | None:
        """Return what is wrong with a value, by itself; None: nothing is."""
        _, errors = check_fields({self.name: value})
        return errors[0] if errors else None


def field_options() -> list[FieldOption]:
    """Return how each field of `BatchConfig` is written, in its order."""
    docs = _docs()
    return [
        _field_option(field, docs.get(field.name, "")) for field in dataclasses.fields(BatchConfig)
    ]


def parse_names(text: str) -> tuple[str, ...]:
    """Return names that stand between commas.

    Example:
        >>> parse_names("image, objects/bbox")
        ('image', 'objects/bbox')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def write_text(value: Any) -> str:
    """Return the text that is parsed as a value.

    Example:
        >>> write_text(("image", "label")), write_text({"objects/bbox": 16}), write_text(None)
        ('image,label', 'objects/bbox=16', 'none')
    """
    if isinstance(value, dict):
        return ",".join(f"{path}={length}" for path, length in value.items())
    if isinstance(value, tuple | list):
        return ",".join(value)
    return "none" if value is None else str(value)


def _field_option(field: dataclasses.Field[Any], doc: str) -> FieldOption:
    is_union = isinstance(field.type, types.UnionType)
    kind = typing.get_args(field.type)[0] if is_union else field.type  # the other is None
    described, read = _READERS.get(kind, _LENGTHS)
    default = None if field.default is dataclasses.MISSING else field.default
    choices: tuple[str, ...] = ()
    if isinstance(default, enum.StrEnum):
        choices, default = tuple(member.value for member in type(default)), default.value
    return FieldOption(
        name=field.name,
        doc=doc,
        default=default,
        described=f"{described}, or none" if is_union else described,
        choices=choices,
        is_bool=kind is bool,
        optional=is_union,
        _read=read,
    )


def _parse_lengths(text: str) -> dict[str, int]:
    pairs = [part.rpartition("=") for part in parse_names(text)]
    lengths = {path.strip(): int(length) for path, _, length in pairs}
    if "" in lengths or len(lengths) < len(pairs):
        raise ValueError(text)
    return lengths


_READERS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    bool: ("true or false", bool),
    int: ("an integer", int),
    float: ("a number", float),
    str: ("a string", str),
    tuple[str, ...]: ("names separated by commas", parse_names),
}
_LENGTHS = ("lengths such as objects/bbox=16,words=8, each path once", _parse_lengths)


@functools.cache
def _docs() -> dict[str, str]:
    section = (inspect.getdoc(BatchConfig) or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text.replace("`", "")) for name, text in found}

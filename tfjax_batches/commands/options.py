# SPDX-License-Identifier: Apache-2.0
"""The fields of `BatchConfig` as options of commands and as flags.

Name, type, default and documentation come from the class itself, so that neither can differ from
it. Lists are written with commas, lengths as `objects/bbox=16,words=8`, and None as `none`.
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
        name: Name of the field.
        doc: Its description in the docstring of `BatchConfig`, on one line.
        default: Its default; None for one that is mutable.
        described: What its text must be.
        is_bool: Whether it is written `--name` or `--noname`.
    """

    name: str
    doc: str
    default: Any
    described: str
    is_bool: bool
    _read: Callable[[str], Any]

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for.

        Raises:
            ValueError: The text stands for no value, or for one that the field cannot have.
        """
        try:
            value = self._read(text)
        except ValueError as error:
            raise ValueError(f"expected {self.described}; got {text!r}") from error
        checked, errors = check_fields({self.name: value})
        if errors:
            raise ValueError(errors[0])
        return checked[self.name]


def field_options() -> list[FieldOption]:
    """Return how each field of `BatchConfig` is written, in the order of the fields."""
    docs = _docs()
    return [
        _field_option(field, docs.get(field.name, "")) for field in dataclasses.fields(BatchConfig)
    ]


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names between commas.

    Example:
        >>> parse_names("image, objects/bbox")
        ('image', 'objects/bbox')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def write_text(value: Any) -> str:
    """Return the text that stands for a value.

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
    default = None if field.default is dataclasses.MISSING else field.default
    described, read = _READERS.get(kind, _LENGTHS)
    if isinstance(default, enum.StrEnum):
        described, read, default = f"one of {', '.join(type(default))}", str, default.value
    return FieldOption(
        name=field.name,
        doc=doc,
        default=default,
        described=f"{described}, or none" if is_union else described,
        is_bool=kind is bool,
        _read=(lambda text: None if text.lower() == "none" else read(text)) if is_union else read,
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

# SPDX-License-Identifier: Apache-2.0
"""absl flags for a `BatchConfig` and its sharding, for programs without `ml_collections`.

The flags are made of the fields of `BatchConfig`, with its types, defaults and documentation, so
that there is one place for them. Nothing is defined on import.
"""

import dataclasses
import enum
import inspect
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import flags
from jax.sharding import Mesh, NamedSharding

from tfjax_batches.config import BatchConfig, settle
from tfjax_batches.errors import ConfigError, LayoutError, nearest_hint
from tfjax_batches.placing.sharding import data_sharding
from tfjax_batches.planning.mesh import parse_axes, parse_mesh_shape

_MESH = "mesh"
_DATA_AXES = "data_axes"
_FIELDS = {field.name: field for field in dataclasses.fields(BatchConfig)}


def define_batch_flags(prefix: str = "", flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Define a flag for each field of `BatchConfig`, and `--mesh` and `--data_axes`.

    Call it where flags are defined, at the top of the program. A value that its field cannot have
    is an error of the command line, in one line. To define the same flags again does nothing.

    Lists are written with commas (`--features=image,label`), lengths as `--pad_to=objects/bbox=16`,
    and `none` stands for None.

    Args:
        prefix: Put before the names of the fields, such as `"eval_"`; `--mesh` and `--data_axes`
            have none, since all batches of a program are on one mesh.
        flag_values: Where to define them.

    Raises:
        absl.flags.DuplicateFlagError: Another module has a flag of one of these names.

    Example::

        tjb.define_batch_flags()

        def main(argv):
            loader = tjb.build(tjb.batch_config_from_flags(), tjb.sharding_from_flags())

        app.run(main)  # --dataset=mnist --global_batch_size=256 --mesh=data=-1,model=2
    """
    docs = _field_docs()
    for name, field in _FIELDS.items():
        flag = f"{prefix}{name}"
        if _is_ours(flag, flag_values):
            continue
        default = field.default
        if default is dataclasses.MISSING:
            default = None  # the field's own default is used: it is mutable
        _define(_parser_of(field), flag, default, docs.get(name, ""), flag_values)
        flags.register_validator(flag, _field_check(name), flag_values=flag_values)
    _define_mesh_flags(flag_values)


def batch_config_from_flags(
    prefix: str = "", flag_values: flags.FlagValues = flags.FLAGS, **fields: Any
) -> BatchConfig:
    """Return the config that the flags say; where none were parsed, as in a notebook, the defaults.

    Args:
        prefix: That of `define_batch_flags`.
        flag_values: Where the flags are defined.
        **fields: Fields of `BatchConfig`, in place of those of the flags.

    Raises:
        ConfigError: There are no such flags, or no such field.
    """
    if unknown := sorted(set(fields) - set(_FIELDS)):
        hint = nearest_hint(unknown[0], _FIELDS)
        raise ConfigError(f"Keywords are fields of BatchConfig; {unknown[0]!r} is none. {hint}")
    values = {name: _value_of(f"{prefix}{name}", prefix, flag_values) for name in _FIELDS}
    if values["pad_to"] is None:
        del values["pad_to"]
    return BatchConfig(**{**values, **fields})


def sharding_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> NamedSharding:
    """Return the sharding of `--mesh` and `--data_axes`: all devices, dim 0 over the data axes.

    Args:
        flag_values: Where the flags are defined.

    Raises:
        ConfigError: There are no such flags.
        LayoutError: The mesh does not hold all devices, or lacks a data axis.
    """
    devices = np.array(jax.devices())
    shape = parse_mesh_shape(_value_of(_MESH, "", flag_values), len(devices))
    mesh = Mesh(devices.reshape(tuple(shape.values())), tuple(shape))
    return data_sharding(mesh, _value_of(_DATA_AXES, "", flag_values))


class _FieldParser(flags.ArgumentParser[Any]):
    """Parses the text of a flag as what its field holds.

    Args:
        parse: Makes a value of a text, or raises ValueError.
        described: What a text must be, for `--help` and messages.
        optional: Whether `none` means None.
    """

    def __init__(self, parse: Callable[[str], Any], described: str, optional: bool) -> None:
        self.syntactic_help = described + (", or none" if optional else "")
        self._parse = parse
        self._optional = optional

    def parse(self, argument: Any) -> Any:
        """Return the value of a text; what is no text, such as a default, is a value already."""
        if not isinstance(argument, str):
            return argument
        if self._optional and argument.lower() == "none":
            return None
        try:
            return self._parse(argument)
        except ValueError as error:
            raise ValueError(f"expected {self.syntactic_help}") from error

    def flag_type(self) -> str:
        """Return what `--help` calls the type."""
        return self.syntactic_help


class _FieldSerializer(flags.ArgumentSerializer[Any]):
    """Writes values as they are parsed, so that a program's flags can be saved and read again."""

    def serialize(self, value: Any) -> str:
        """Return the text of a value."""
        if isinstance(value, dict):
            return ",".join(f"{path}={length}" for path, length in value.items())
        if isinstance(value, tuple | list):
            return ",".join(value)
        return str(value)


def _parser_of(field: dataclasses.Field[Any]) -> flags.ArgumentParser[Any]:
    optional = type(None) in getattr(field.type, "__args__", ())
    kinds = [kind for kind in getattr(field.type, "__args__", ()) if kind is not type(None)]
    kind = kinds[0] if optional else field.type
    if isinstance(field.default, enum.Enum):
        return flags.EnumParser([member.value for member in type(field.default)])
    if kind is bool:
        return flags.BooleanParser()
    if kind is int:
        return _FieldParser(int, "an integer", optional)
    if kind is float:
        return _FieldParser(float, "a number", optional)
    if kind is str:
        return _FieldParser(str, "a string", optional)
    if kind == tuple[str, ...]:
        return _FieldParser(_parse_names, "names separated by commas", optional)
    return _FieldParser(_parse_lengths, "lengths such as objects/bbox=16,words=8", optional)


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parse_lengths(text: str) -> dict[str, int]:
    pairs = (part.rpartition("=") for part in _parse_names(text))
    return {path.strip(): int(length) for path, _, length in pairs}


def _define(
    parser: flags.ArgumentParser[Any],
    name: str,
    default: Any,
    doc: str,
    flag_values: flags.FlagValues,
) -> None:
    if isinstance(parser, flags.BooleanParser):
        flags.DEFINE_boolean(name, default, doc, flag_values)
    elif isinstance(parser, flags.EnumParser):
        flags.DEFINE_enum(name, default.value, parser.enum_values, doc, flag_values)
    else:
        flags.DEFINE(parser, name, default, doc, flag_values, _FieldSerializer())
    # `--help` tells of the flags of the program itself alone.
    flag_values.register_key_flag_for_module(sys.argv[0], flag_values[name])


def _define_mesh_flags(flag_values: flags.FlagValues) -> None:
    if _is_ours(_MESH, flag_values):
        return
    _define(
        _FieldParser(str, "axes with sizes", optional=False),
        _MESH,
        "data=-1",
        "Mesh axes and sizes in order, such as data=4,model=2; one size may be -1: all devices "
        "that are left.",
        flag_values,
    )
    _define(
        _FieldParser(_parse_names, "axes separated by commas", optional=False),
        _DATA_AXES,
        ("data",),
        "Mesh axes that split the batch. Empty: none does, and each device holds all rows.",
        flag_values,
    )
    flags.register_multi_flags_validator([_MESH, _DATA_AXES], _check_mesh, flag_values=flag_values)


def _check_mesh(values: dict[str, Any]) -> bool:
    try:
        axes = parse_axes(values[_MESH])
    except LayoutError as error:
        raise flags.ValidationError(str(error)) from error
    sizes = list(axes.values())
    if sizes.count(-1) > 1 or math.prod(sizes) == 0:
        raise flags.ValidationError(
            f"One axis of a mesh may have the size -1; got {values[_MESH]!r}. Give the others."
        )
    for axis in values[_DATA_AXES]:
        if axis not in axes:
            raise flags.ValidationError(
                f"--{_DATA_AXES} names axes of --{_MESH}; {axis!r} is none of "
                f"{values[_MESH]!r}. {nearest_hint(axis, axes)}"
            )
    return True


def _field_check(name: str) -> Callable[[Any], bool]:
    """Return the validator of a field: what `BatchConfig.checked` says of it alone."""

    def check(value: Any) -> bool:
        if value == _FIELDS[name].default or value is None:
            return True  # not given: whether it must be is for `build` to say
        config = BatchConfig(**{"dataset": "any", "global_batch_size": 1, name: value})
        if faults := settle(config):
            raise flags.ValidationError(faults[0])
        return True

    return check


def _is_ours(name: str, flag_values: flags.FlagValues) -> bool:
    return name in flag_values and flag_values.find_module_defining_flag(name) == __name__


def _value_of(name: str, prefix: str, flag_values: flags.FlagValues) -> Any:
    if name not in flag_values:
        call = f"define_batch_flags({prefix!r})" if prefix else "define_batch_flags()"
        raise ConfigError(
            f"Flags are defined before they are asked for; there is no --{name}. "
            f"Call {call} at the top of the program."
        )
    # Not `flag_values.name`, which raises where no command line was parsed.
    return flag_values[name].value


def _field_docs() -> dict[str, str]:
    """Return what the docstring of `BatchConfig` says of each field, on one line each."""
    section = (inspect.getdoc(BatchConfig) or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text.replace("`", "")) for name, text in found}

# SPDX-License-Identifier: Apache-2.0
"""absl flags for a `BatchConfig` and its sharding, for programs without `ml_collections`.

The flags are made from the fields of `BatchConfig`. Importing this module defines none.
"""

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import flags
from jax.sharding import Mesh, NamedSharding

from tfjax_batches.commands.options import FieldOption, field_options, parse_names, write_text
from tfjax_batches.config.batch_config import BatchConfig
from tfjax_batches.errors import ConfigError, LayoutError, nearest_hint
from tfjax_batches.placing.sharding import check_data_axes, data_sharding
from tfjax_batches.planning.mesh_text import parse_axes, parse_mesh_shape

_MESH = "mesh"
_DATA_AXES = "data_axes"
_FIELDS = {field.name: field for field in field_options()}


def define_batch_flags(prefix: str = "", flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Define a flag for each field of `BatchConfig`, and `--mesh` and `--data_axes`.

    Call it where flags are defined, at the top of the program. A value that its field cannot have
    is a one-line error of the command line. Defining the same flags again does nothing.

    Lists are written with commas (`--features=image,label`), lengths as `--pad_to=objects/bbox=16`,
    and `none` stands for None.

    Args:
        prefix: Put before the names of the fields, such as `"eval_"`, but not before `--mesh` and
            `--data_axes`: all batches of a program are on one mesh.
        flag_values: Where to define them.

    Raises:
        absl.flags.DuplicateFlagError: Another module has a flag of one of these names.

    Example::

        tjb.define_batch_flags()

        def main(argv):
            loader = tjb.build(tjb.batch_config_from_flags(), tjb.sharding_from_flags())

        app.run(main)  # --dataset=mnist --global_batch_size=256 --mesh=data=-1,model=2
    """
    for field in _FIELDS.values():
        if not _is_ours(f"{prefix}{field.name}", flag_values):
            _define_field(field, f"{prefix}{field.name}", flag_values)
    _define_mesh_flags(flag_values)


def batch_config_from_flags(
    prefix: str = "", flag_values: flags.FlagValues = flags.FLAGS, **fields: Any
) -> BatchConfig:
    """Return the config of the flags. If none were parsed, as in a notebook, they have defaults.

    Args:
        prefix: The prefix given to `define_batch_flags`.
        flag_values: Where the flags are defined.
        **fields: Fields of `BatchConfig` that replace those of the flags.

    Returns:
        A config, which `build` checks.

    Raises:
        ConfigError: The flags are not defined, or a keyword is not a field.
    """
    if unknown := sorted(set(fields) - set(_FIELDS)):
        hint = nearest_hint(unknown[0], _FIELDS)
        raise ConfigError(f"Keywords are fields of BatchConfig; {unknown[0]!r} is not one. {hint}")
    values = {name: _value_of(f"{prefix}{name}", prefix, flag_values) for name in _FIELDS}
    if values["pad_to"] is None:
        del values["pad_to"]
    return BatchConfig(**{**values, **fields})


def sharding_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> NamedSharding:
    """Return the sharding of `--mesh` and `--data_axes`: all devices, the data axes split dim 0.

    Args:
        flag_values: Where the flags are defined.

    Returns:
        A sharding for `build`.

    Raises:
        ConfigError: The flags are not defined.
        LayoutError: The mesh does not hold all devices, or lacks a data axis.
    """
    devices = np.array(jax.devices())
    shape = parse_mesh_shape(_value_of(_MESH, "", flag_values), len(devices))
    mesh = Mesh(devices.reshape(tuple(shape.values())), tuple(shape))
    return data_sharding(mesh, _value_of(_DATA_AXES, "", flag_values))


class _TextParser(flags.ArgumentParser[Any]):
    """Parses the text of a flag.

    Args:
        parse: Returns the value of a text, or raises ValueError.
        described: What a text must be, for `--help`.
        default: Passed through, like anything else that is not a text to parse.
    """

    def __init__(self, parse: Callable[[str], Any], described: str, default: Any) -> None:
        self.syntactic_help = described
        self._parse = parse
        self._default = default

    def parse(self, argument: Any) -> Any:
        """Return the value of a text."""
        is_text = isinstance(argument, str) and argument != self._default
        return self._parse(argument) if is_text else argument

    def flag_type(self) -> str:
        """Return the name of the type in `--help`."""
        return self.syntactic_help


class _TextSerializer(flags.ArgumentSerializer[Any]):
    """Writes values as they are parsed, so that the flags of a program can be saved."""

    def serialize(self, value: Any) -> str:
        """Return the text of a value."""
        return write_text(value)


def _define_field(field: FieldOption, name: str, flag_values: flags.FlagValues) -> None:
    if field.is_bool:
        flags.DEFINE_boolean(name, field.default, field.doc, flag_values)
    else:
        parser = _TextParser(field.parse, field.described, field.default)
        flags.DEFINE(parser, name, field.default, field.doc, flag_values, _TextSerializer())
    _show_in_help(name, flag_values)


def _show_in_help(name: str, flag_values: flags.FlagValues) -> None:
    # `--help` lists the flags of the main module only.
    flag_values.register_key_flag_for_module(sys.argv[0], flag_values[name])


def _define_mesh_flags(flag_values: flags.FlagValues) -> None:
    if _is_ours(_MESH, flag_values):
        return
    doc = (
        "Mesh axes and sizes in order, such as data=4,model=2; one size may be -1: all devices "
        "that are left."
    )
    flags.DEFINE_string(_MESH, "data=-1", doc, flag_values)
    doc = "Mesh axes that split the batch. Empty: none, and each device holds all rows."
    parser = _TextParser(parse_names, "axes separated by commas", ("data",))
    flags.DEFINE(parser, _DATA_AXES, ("data",), doc, flag_values, _TextSerializer())
    for name in (_MESH, _DATA_AXES):
        _show_in_help(name, flag_values)
    flags.register_multi_flags_validator([_MESH, _DATA_AXES], _check_mesh, flag_values=flag_values)


def _check_mesh(values: dict[str, Any]) -> bool:
    try:
        check_data_axes(values[_DATA_AXES], tuple(parse_axes(values[_MESH])))
    except LayoutError as error:
        raise flags.ValidationError(str(error)) from error
    return True


def _is_ours(name: str, flag_values: flags.FlagValues) -> bool:
    return name in flag_values and flag_values.find_module_defining_flag(name) == __name__


def _value_of(name: str, prefix: str, flag_values: flags.FlagValues) -> Any:
    if name not in flag_values:
        call = f"define_batch_flags({prefix!r})" if prefix else "define_batch_flags()"
        raise ConfigError(
            f"Flags are defined before they are read; there is no --{name}. "
            f"Call {call} at the top of the program."
        )
    # Not `flag_values.name`, which raises if no command line was parsed.
    return flag_values[name].value

# SPDX-License-Identifier: Apache-2.0
"""absl flags for a config and its sharding, for programs without `ml_collections`.

The flags are made from the fields of `BatchConfig` and `MixtureConfig`. Importing this module
defines none.
"""

import sys
from typing import Any

import jax
import numpy as np
from absl import flags
from jax.sharding import Mesh, NamedSharding

from tfjax_batches.commands.options import FieldOption, field_options
from tfjax_batches.config.batch_config import Config, make_config
from tfjax_batches.errors import ConfigError
from tfjax_batches.placing.sharding import data_sharding
from tfjax_batches.planning.mesh_text import parse_mesh_shape


def define_batch_flags(prefix: str = "", flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Define a flag for each field of `BatchConfig` and `MixtureConfig`, `--mesh`, `--data_axes`.

    Call it where flags are defined, at the top of the program. A value that its field cannot have
    is a one-line error of the command line. Defining the same flags again does nothing.

    Lists are written with commas (`--features=image,label`), lengths as `--pad_to=objects/bbox=16`,
    batch sizes by step as `--global_batch_size=0:256,10000:512`, and `none` stands for None.
    Sources and weights are Python literals: `--sources="{'web': {'dataset': 'c4'}, …}"`.

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
    for field in field_options().values():
        _define(_field_flag(field, f"{prefix}{field.name}"), flag_values)
    text = "Mesh axes and sizes in order, such as data=4,model=2; one size may be -1: all others."
    _define(flags.Flag(flags.ArgumentParser(), None, "mesh", "data=-1", text), flag_values)
    text = "Mesh axes that split the batch. Empty: none, and each device holds all rows."
    writer: flags.ListSerializer[str] = flags.ListSerializer(",")
    _define(flags.Flag(flags.ListParser(), writer, "data_axes", "data", text), flag_values)


def batch_config_from_flags(
    prefix: str = "", flag_values: flags.FlagValues = flags.FLAGS, **fields: Any
) -> Config:
    """Return the config of the flags, that of a mixture where `--sources` is given.

    If none were parsed, as in a notebook, they have defaults.

    Args:
        prefix: The prefix given to `define_batch_flags`.
        flag_values: Where the flags are defined.
        **fields: Fields that replace those of the flags.

    Returns:
        A config, which `build` checks.

    Raises:
        ConfigError: The flags are not defined; or a flag or keyword is no field of this config, as
            `--dataset` is none of a mixture.
    """
    by_field = {name: _find(f"{prefix}{name}", flag_values) for name in field_options()}
    given = {name: flag.value for name, flag in by_field.items() if not flag.using_default_value}
    return make_config(None, {**given, **fields}, "batch_config_from_flags")


def sharding_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> NamedSharding:
    """Return the sharding of `--mesh` and `--data_axes`: all devices, the data axes split dim 0.

    Args:
        flag_values: Where the flags are defined.

    Returns:
        A sharding for `build`.

    Raises:
        ConfigError: The flags are not defined.
        LayoutError: The mesh is malformed, does not hold all devices, or lacks a data axis.
    """
    devices = np.array(jax.devices())
    shape = parse_mesh_shape(_find("mesh", flag_values).value, len(devices))
    mesh = Mesh(devices.reshape(tuple(shape.values())), tuple(shape))
    return data_sharding(mesh, _find("data_axes", flag_values).value)


class _FieldParser(flags.ArgumentParser[Any]):
    """Parses the text of a field; passes values through, as absl does."""

    def __init__(self, field: FieldOption) -> None:
        self._field = field

    def parse(self, argument: Any) -> Any:
        return self._field.parse(argument) if isinstance(argument, str) else argument

    def flag_type(self) -> str:
        return self._field.expected


class _FieldSerializer(flags.ArgumentSerializer[Any]):
    """Writes values as they are parsed, so that the flags of a program can be saved."""

    def __init__(self, field: FieldOption) -> None:
        self._field = field

    def serialize(self, value: Any) -> str:
        return str(value) if value is None else self._field.write(value)


def _field_flag(field: FieldOption, name: str) -> flags.Flag[Any]:
    if isinstance(field.default, bool):
        return flags.BooleanFlag(name, field.default, field.doc)
    return flags.Flag(_FieldParser(field), _FieldSerializer(field), name, field.default, field.doc)


def _define(flag: flags.Flag[Any], flag_values: flags.FlagValues) -> None:
    name = flag.name
    if name in flag_values and flag_values.find_module_defining_flag(name) == __name__:
        return  # defined again: keeps its value
    flags.DEFINE_flag(flag, flag_values)
    # `--help` lists the flags of the main module only.
    flag_values.register_key_flag_for_module(sys.argv[0], flag)


def _find(name: str, flag_values: flags.FlagValues) -> Any:
    if name not in flag_values:
        raise ConfigError(
            f"Flags are defined before they are read; there is no --{name}. Call "
            "define_batch_flags, with the same prefix, at the top of the program."
        )
    # Not `flag_values.name`, which raises if no command line was parsed.
    return flag_values[name]

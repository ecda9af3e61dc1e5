# SPDX-License-Identifier: Apache-2.0
"""`describe`: what a run would do, on machines that need not exist."""

import argparse

from tfjax_batches.commands.cli import given_fields
from tfjax_batches.errors import ConfigError
from tfjax_batches.loading.dry_run import dry_run
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.mesh_text import parse_axes, parse_mesh_shape, parse_partition_spec


def run(arguments: argparse.Namespace) -> int:
    """Print the description of a dry run."""
    fields = given_fields(arguments)
    if "global_batch_size" not in fields:
        raise ConfigError(
            "A run needs a batch size; none is given. Add --global_batch_size, the rows of a step."
        )
    layout = BatchLayout.simulate(
        _mesh_shape(arguments),
        parse_partition_spec(arguments.spec),
        fields["global_batch_size"],
        arguments.processes,
    )
    dataset = fields.pop("dataset")
    print(dry_run(dataset, layout, process_index=arguments.process, **fields).describe())
    return 0


def _mesh_shape(arguments: argparse.Namespace) -> dict[str, int]:
    per_process = arguments.devices_per_process
    if per_process is None and -1 not in parse_axes(arguments.mesh).values():
        return parse_mesh_shape(arguments.mesh)
    return parse_mesh_shape(arguments.mesh, arguments.processes * (per_process or 1))

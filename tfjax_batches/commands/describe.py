# SPDX-License-Identifier: Apache-2.0
"""`describe`: what a run would do, on machines that need not exist."""

import argparse

from tfjax_batches.commands.cli import given_fields
from tfjax_batches.loading.dry_run import dry_run
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.mesh_text import parse_mesh_shape, parse_partition_spec
from tfjax_batches.planning.schedule import Schedule


def run(arguments: argparse.Namespace) -> int:
    """Print the description of a dry run."""
    print(make_dry_run(arguments).describe())
    return 0


def make_dry_run(arguments: argparse.Namespace) -> BatchLoader:
    """Return the loader that a process would have, of the machines of the arguments."""
    fields = given_fields(arguments)
    num_devices = None
    if arguments.devices_per_process is not None or "-1" in arguments.mesh:
        num_devices = arguments.processes * (arguments.devices_per_process or 1)
    layout = BatchLayout.simulate(
        parse_mesh_shape(arguments.mesh, num_devices),
        parse_partition_spec(arguments.spec),
        Schedule.of(fields.get("global_batch_size", 0)).rows_at(0),
        arguments.processes,
    )
    dataset = fields.pop("dataset")  # None: of a mixture
    return dry_run(dataset, layout, process_index=arguments.process, **fields)

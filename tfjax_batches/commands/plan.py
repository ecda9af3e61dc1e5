# SPDX-License-Identifier: Apache-2.0
"""`plan`: what reading would cost on storage far away."""

import argparse

from tfjax_batches.commands.describe import make_dry_run
from tfjax_batches.showing.read_costs import Storage, describe_costs


def run(arguments: argparse.Namespace) -> int:
    """Print requests, bytes, memory and times of a dry run, by order."""
    loader = make_dry_run(arguments)
    storage = Storage(
        latency=arguments.latency,
        bandwidth=arguments.bandwidth,
        requests=loader.pipeline.pool.num_threads,
    )
    description = describe_costs(
        "; ".join(loader.sources.values()),
        loader.plan,
        loader.layout,
        arguments.process,
        loader.pipeline.example_bytes,
        storage,
    )
    print(description)
    return 0

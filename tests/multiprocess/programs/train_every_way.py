# SPDX-License-Identifier: Apache-2.0
"""Trains the same steps on a line and on a (host, device) mesh, with jit and with shard_map."""

import dataclasses
import sys

from tests.multiprocess.launching import REPOSITORY

sys.path.append(str(REPOSITORY / "scripts"))

import jax
import train
from network import init_params

import tfjax_batches as tjb
from configs import digits

WAYS = [
    ("line_jit", "data=4", ("data",), "jit"),
    ("line_shard_map", "data=4", ("data",), "shard_map"),
    ("host_device_jit", "host=2,device=2", ("host", "device"), "jit"),
    ("host_device_shard_map", "host=2,device=2", ("host", "device"), "shard_map"),
    ("model_shard_map", "data=2,model=2", ("data",), "shard_map"),
]


def main(data_dir: str) -> None:
    """Print a digest of the ids and a loss for each way.

    Args:
        data_dir: The TFDS folder that holds digits.
    """
    base = digits.get_config()
    batches = dataclasses.replace(base.batches, data_dir=data_dir)
    for name, mesh_text, data_axes, parallel in WAYS:
        config = dataclasses.replace(
            base, batches=batches, data_axes=data_axes, parallel=parallel, num_steps=30
        )
        mesh = train.make_mesh(mesh_text)
        loader = tjb.build(config.batches, tjb.data_sharding(mesh, data_axes))
        params = init_params(mesh, 64, config.hidden_units, 10, config.seed)
        print(f"way: {name}")
        params = train.train(config, loader, mesh, params)
        tjb.check_replicas(params)
    jax.block_until_ready(params)

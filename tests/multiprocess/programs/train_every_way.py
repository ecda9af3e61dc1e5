# SPDX-License-Identifier: Apache-2.0
"""Trains the same steps on a line and on a (host, device) mesh, with jit and with shard_map.

Argument: the TFDS folder that holds digits. Prints a loss for each way.
"""

import dataclasses
import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[3] / folder) for folder in ("scripts", "configs")]

import digits
import jax
import train

import tfjax_batches as tjb
from tfjax_batches import launch

WAYS = [
    ("line_jit", "data=4", ("data",), "jit"),
    ("line_shard_map", "data=4", ("data",), "shard_map"),
    ("host_device_jit", "host=2,device=2", ("host", "device"), "jit"),
    ("host_device_shard_map", "host=2,device=2", ("host", "device"), "shard_map"),
    ("model_shard_map", "data=2,model=2", ("data",), "shard_map"),
]


def main() -> None:
    launch.initialize()
    base = digits.get_config()
    batches = dataclasses.replace(base.batches, data_dir=sys.argv[1])
    for name, mesh_text, data_axes, parallel in WAYS:
        config = dataclasses.replace(
            base, batches=batches, data_axes=data_axes, parallel=parallel, num_steps=30
        )
        mesh = train.make_mesh(mesh_text)
        loader = tjb.build(config.batches, tjb.data_sharding(mesh, data_axes))
        params = train.init_params(mesh, 64, config.hidden_units, 10, config.seed)
        print(f"way: {name}")
        params = train.train(config, loader, mesh, params)
        tjb.check_replicas(params)
    jax.block_until_ready(params)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Restores a state on another topology."""

import hashlib
import json
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb


def digest_of_rest(batches: tjb.BatchIterator) -> str:
    digest = hashlib.sha256()
    for batch in batches:
        whole = multihost_utils.process_allgather(batch, tiled=True)
        for leaf in jax.tree.leaves(whole):
            digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def build(folder: str, *shape: int) -> tjb.BatchLoader:
    mesh = Mesh(np.array(jax.devices()).reshape(shape), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    return tjb.build(
        folder, sharding, global_batch_size=8, num_epochs=2, with_ids=True, prefetch_depth=4
    )


def main(folder: str, state_file: str) -> None:
    """Print a digest of all batches after a state, which must not depend on the processes.

    Args:
        folder: Folder of `Numbers`.
        state_file: File of the state. If it does not exist, three batches are consumed, the state
            is saved there, and the same iterator delivers the rest.
    """
    path = Path(state_file)
    saved = path.exists()
    multihost_utils.sync_global_devices("all have looked")
    if not saved:
        with iter(build(folder, 4, 1)) as batches:
            for _ in range(3):  # of the 2.9 that an epoch has
                next(batches)
            if jax.process_index() == 0:
                path.write_text(json.dumps(batches.get_state()))
            print(f"rest_of_the_same_run: {digest_of_rest(batches)}", flush=True)
        return
    state = json.loads(path.read_text())
    for shape in ((4, 1), (1, 4)):
        with build(folder, *shape).restore(state) as batches:
            print(f"rest_on_{shape[0]}_by_{shape[1]}: {digest_of_rest(batches)}", flush=True)

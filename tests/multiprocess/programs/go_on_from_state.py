# SPDX-License-Identifier: Apache-2.0
"""Goes on from a state on another topology; prints a digest of all that follows.

Arguments: the folder of `Numbers`, and a file. Where there is no such file, three batches are
consumed, the state is saved there, and what follows is delivered by the same iterator.
"""

import hashlib
import json
import sys
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tfjax_batches import launch


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


def main() -> None:
    launch.initialize()
    folder, path = sys.argv[1], Path(sys.argv[2])
    saved = path.exists()
    multihost_utils.sync_global_devices("all have looked")
    if not saved:
        with iter(build(folder, 4, 1)) as batches:
            for _ in range(3):  # of the 2.9 that an epoch has
                next(batches)
            if jax.process_index() == 0:
                path.write_text(json.dumps(batches.get_state()))
            print(f"rest: {digest_of_rest(batches)}")
        return
    state = json.loads(path.read_text())
    for shape in ((4, 1), (1, 4)):
        with build(folder, *shape).restore(state) as batches:
            print(f"rest: {digest_of_rest(batches)}")


if __name__ == "__main__":
    main()

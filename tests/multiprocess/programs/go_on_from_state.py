# SPDX-License-Identifier: Apache-2.0
"""Restores states of one dataset and of a mixture on another topology."""

import dataclasses
import hashlib
import json
from pathlib import Path

import jax
import numpy as np
import pytest
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


def build_mixture(folder: str, *shape: int) -> tjb.BatchLoader:
    mesh = Mesh(np.array(jax.devices()).reshape(shape), ("data", "model"))
    plain = tjb.Source(dataset=folder, features=("number", "vector"), max_epochs=3)
    source = dataclasses.replace(plain, shuffle="block", block_size=3)
    other = dataclasses.replace(plain, split="test", shuffle="none", max_epochs=4)
    mixture = tjb.MixtureConfig(
        sources={"a": source, "b": other},
        # The state is saved at step 3; sizes change before and after it, and so do the weights.
        weights=[(0, {"a": 3, "b": 1}), (2, {"a": 1, "b": 1}), (5, {"a": 1, "b": 2})],
        global_batch_size=[(0, 8), (1, 4), (4, 12)],
        exhausted="redistribute",
        with_ids=True,
        with_sources=True,
        reading="range",
    )
    return tjb.build(mixture, NamedSharding(mesh, PartitionSpec("data")))


def check_odd_weights_are_named(folder: str) -> None:
    odd = 1 + (jax.process_index() == 1)
    source = tjb.Source(dataset=folder)
    sources = {"a": source, "b": dataclasses.replace(source, split="test")}
    with pytest.raises(tjb.AgreementError, match="weights: process"):
        tjb.build(
            tjb.MixtureConfig(sources=sources, weights={"a": 1, "b": odd}), global_batch_size=8
        )


def main(folder: str, state_file: str) -> None:
    """Print digests of all batches after a state, and of a whole run: equal on all processes.

    Args:
        folder: Folder of `Numbers`.
        state_file: File of the states. If it does not exist, three batches of each run are
            consumed, the states are saved there, and the same iterators deliver the rest.
    """
    path = Path(state_file)
    saved = json.loads(path.read_text()) if path.exists() else {}
    multihost_utils.sync_global_devices("all have looked")
    states = {}
    for name, make in (("rest", build), ("mixed", build_mixture)):
        if not saved:
            with iter(make(folder, 4, 1)) as batches:
                for _ in range(3):  # of the 2.9 that an epoch has
                    next(batches)
                states[name] = batches.get_state()
                print(f"{name}_of_the_same_run: {digest_of_rest(batches)}", flush=True)
            continue
        for shape in ((4, 1), (1, 4)):
            with make(folder, *shape).restore(saved[name]) as batches:
                digest = digest_of_rest(batches)
            print(f"{name}_on_{shape[0]}_by_{shape[1]}: {digest}", flush=True)
    if jax.process_index() == 0 and not saved:
        path.write_text(json.dumps(states))
    with iter(build_mixture(folder, 4, 1)) as batches:
        print(f"whole_mixture: {digest_of_rest(batches)}", flush=True)
    if jax.process_count() > 1:
        check_odd_weights_are_named(folder)

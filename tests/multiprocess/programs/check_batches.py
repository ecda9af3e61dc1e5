# SPDX-License-Identifier: Apache-2.0
"""Checks every shard of every batch on this process, over several shardings of four devices."""

import hashlib
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tests.made_datasets import number_example

ROWS = 8


def shardings() -> dict[str, NamedSharding]:
    devices = np.array(jax.devices())
    square = Mesh(devices.reshape(2, 2), ("data", "model"))
    return {
        "line": NamedSharding(Mesh(devices, ("data",)), PartitionSpec("data")),
        "square": NamedSharding(square, PartitionSpec("data")),
        "model axis first": NamedSharding(
            Mesh(devices.reshape(2, 2), ("model", "data")), PartitionSpec("data")
        ),
        "permuted": NamedSharding(Mesh(devices[[0, 2, 1, 3]], ("data",)), PartitionSpec("data")),
        "all rows everywhere": NamedSharding(square, PartitionSpec()),
        "both axes": NamedSharding(square, PartitionSpec(("model", "data"))),
    }


def check_shards(batch: dict[str, Any], examples: np.ndarray) -> None:
    """Compare each local shard of each feature with the examples that belong in its rows."""
    for path, array in (
        ("number", batch["number"]),
        ("vector", batch["vector"]),
        ("image", batch["nested"]["image"]),
        ("_id", batch["_id"]),
        ("_mask", batch["_mask"]),
    ):
        assert array.shape[0] == ROWS
        assert array.is_fully_addressable == (jax.process_count() == 1)
        for shard in array.addressable_shards:
            ids = examples[shard.index[0]]
            for row, example_id in enumerate(ids.tolist()):
                found = np.asarray(shard.data)[row]
                if path == "_id":
                    assert found == example_id
                elif path == "_mask":
                    assert found == (example_id >= 0)
                elif example_id < 0:
                    assert not found.any()
                else:
                    example = number_example(example_id)
                    expected = example["nested"]["image"] if path == "image" else example[path]
                    np.testing.assert_array_equal(found, expected)


def check_sharding(folder: str, sharding: NamedSharding) -> str:
    loader = tjb.build(
        folder, sharding, global_batch_size=ROWS, num_epochs=2, remainder="pad", with_ids=True
    )
    owned = loader.layout.rows(jax.process_index())
    digest = hashlib.sha256()
    for step, local in enumerate(loader.host_batches()):
        np.testing.assert_array_equal(local["_id"], loader.plan_step(step).examples)
        assert len(local["_id"]) == len(owned)
    with jax.transfer_guard("disallow"), iter(loader) as batches:
        delivered = list(batches)
    assert len(delivered) == len(loader) == 6
    for step, batch in enumerate(delivered):
        whole = loader.plan.plan_rows(step, np.arange(ROWS)).examples
        check_shards(batch, whole)
        gathered = multihost_utils.process_allgather(batch, tiled=True)
        for leaf in jax.tree.leaves(gathered):
            digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def check_failure_of_one_process_reaches_all(folder: str, empty: str) -> None:
    last = jax.process_count() - 1
    here = empty if jax.process_index() == last else folder
    expected = tjb.DatasetNotFoundError if here == empty else tjb.AgreementError
    with pytest.raises(expected, match=r"dataset_info\.json") as caught:
        tjb.build(here, global_batch_size=ROWS)
    assert here == empty or f"process {last}: DatasetNotFoundError" in str(caught.value)


def check_odd_seed_is_named() -> None:
    odd = "process 1 has 1" if jax.process_count() > 2 else "process 0 has 0; process 1 has 1"
    with pytest.raises(tjb.AgreementError, match=f"seed: {odd}"):
        tjb.build("digits", global_batch_size=ROWS, seed=int(jax.process_index() == 1))


def check_odd_device_order_is_named(folder: str) -> None:
    devices = np.array(jax.devices())
    if jax.process_index() == 0:
        devices = devices[[1, 0, 2, 3]]
    sharding = NamedSharding(Mesh(devices, ("data",)), PartitionSpec("data"))
    with pytest.raises(tjb.AgreementError, match="devices: process 0 has"):
        tjb.build(folder, sharding, global_batch_size=ROWS)


def main(folder: str, empty: str) -> None:
    """Print a digest of all rows of all batches for each sharding; all must be equal.

    Args:
        folder: Folder of `Numbers`.
        empty: A folder without a dataset.
    """
    for name, sharding in shardings().items():
        # One name a line, as `reports` reads it.
        print(f"batches_{name.replace(' ', '_')}: {check_sharding(folder, sharding)}", flush=True)
    if jax.process_count() > 1:
        check_failure_of_one_process_reaches_all(folder, empty)
        check_odd_seed_is_named()
        check_odd_device_order_is_named(folder)

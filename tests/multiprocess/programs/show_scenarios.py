# SPDX-License-Identifier: Apache-2.0
"""The situations of the README's section on several processes, each as its reader would try it."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow_datasets as tfds
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tests.made_datasets import number_example

ROWS = 8


def mesh_of(**shape: int) -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(tuple(shape.values())), tuple(shape))


def build(folder: str, sharding: NamedSharding, **fields: Any) -> tjb.BatchLoader:
    return tjb.build(folder, sharding, global_batch_size=ROWS, with_ids=True, **fields)


def first_batch(loader: tjb.BatchLoader) -> dict[str, Any]:
    with iter(loader) as batches:
        return next(batches)


def a1_replica_groups_load_equal_rows(folder: str) -> None:
    loader = build(folder, NamedSharding(mesh_of(data=2, model=2), PartitionSpec("data")))
    assert loader.layout.replica_groups == ((0, 1), (2, 3))
    batch = first_batch(loader)
    local = np.asarray(batch["_id"].addressable_data(0))
    everyone = multihost_utils.process_allgather(local)  # [processes, local rows]
    whole = loader.plan.plan_rows(0, np.arange(ROWS)).examples
    np.testing.assert_array_equal(everyone, [whole[:4], whole[:4], whole[4:], whole[4:]])
    tjb.check_replicas(batch)


def a2_replicas_filled_by_hand_are_found_unequal(folder: str) -> None:
    del folder
    sharding = NamedSharding(mesh_of(data=1, model=2), PartitionSpec("data", None))
    mine = np.full((4, 2), jax.process_index(), np.float32)
    array = jax.make_array_from_process_local_data(sharding, mine, (4, 2))
    # JAX takes it, and each process computes with what it has.
    doubled = jax.jit(lambda x: 2 * x)(array)
    assert np.asarray(doubled.addressable_data(0))[0, 0] == 2 * jax.process_index()
    with pytest.raises(tjb.ReplicaMismatchError) as caught:
        tjb.check_replicas({"inputs": {"x": array}})
    devices = [device.id for device in jax.devices()]
    assert (
        f"inputs/x[:, :]: value 1 on device {devices[0]} of process 0; "
        f"value 2 on device {devices[1]} of process 1"
    ) in str(caught.value)


def a5_an_array_replicated_over_all_processes(folder: str) -> None:
    for spec in (PartitionSpec(), PartitionSpec(None)):
        loader = build(folder, NamedSharding(mesh_of(data=len(jax.devices())), spec))
        batch = first_batch(loader)
        assert batch["number"].is_fully_replicated
        local = np.asarray(batch["_id"].addressable_data(0))
        np.testing.assert_array_equal(local, loader.plan.plan_rows(0, np.arange(ROWS)).examples)
        tjb.check_replicas(batch)


def a6_each_feature_lands_as_its_spec_says(folder: str) -> None:
    # The sequence axis is split over processes, and so are rows of another feature.
    devices = len(jax.devices())
    mesh = mesh_of(data=devices // 2, seq=2)
    loader = build(
        folder,
        NamedSharding(mesh, PartitionSpec("data")),
        feature_shardings={
            "nested/image": NamedSharding(mesh, PartitionSpec("data", "seq")),
            "label": NamedSharding(mesh, PartitionSpec("seq")),
            "vector": NamedSharding(mesh, PartitionSpec()),
        },
    )
    batch = first_batch(loader)
    ids = loader.plan.plan_rows(0, np.arange(ROWS)).examples
    expected = [number_example(int(i)) for i in ids]
    for array, values in (
        (batch["nested"]["image"], [e["nested"]["image"] for e in expected]),
        (batch["label"], [e["label"] for e in expected]),
        (batch["vector"], [e["vector"] for e in expected]),
        (batch["number"], [e["number"] for e in expected]),
    ):
        for shard in array.addressable_shards:
            np.testing.assert_array_equal(shard.data, np.stack(values)[shard.index])
    assert batch["nested"]["image"].addressable_shards[0].data.shape[1] == 2
    assert loader.layout.rows(jax.process_index()).tolist() == list(range(ROWS))
    tjb.check_replicas(batch)


def b1_host_local_rows_under_a_device_spec_are_found_unequal(folder: str) -> None:
    mesh = mesh_of(host=2, device=2)
    wrong = NamedSharding(mesh, PartitionSpec("device"))
    mine = np.arange(4, dtype=np.float32) + 10 * jax.process_index()
    array = jax.make_array_from_process_local_data(wrong, mine, (4,))
    with pytest.raises(tjb.ReplicaMismatchError) as caught:
        tjb.check_replicas(array)
    ids = [device.id for device in jax.devices()]
    assert (
        f"[0:2]: value 1 on device {ids[0]} of process 0; value 2 on device {ids[2]} of process 1"
    ) in str(caught.value)
    assert "PartitionSpec(('host', 'device'))" in str(caught.value)
    right = NamedSharding(mesh, PartitionSpec(("host", "device")))
    loader = build(folder, right)
    assert loader.layout.replica_groups == ((0,), (1,))
    tjb.check_replicas(first_batch(loader))


def b3_host_local_conversion_differs_on_a_permuted_mesh(folder: str) -> None:
    devices = np.array(jax.devices())[[0, 2, 1, 3]]
    sharding = NamedSharding(Mesh(devices, ("data",)), PartitionSpec("data"))
    loader = build(folder, sharding)
    ids = loader.plan.plan_rows(0, np.arange(ROWS)).examples
    for shard in first_batch(loader)["_id"].addressable_shards:
        np.testing.assert_array_equal(shard.data, ids[shard.index])
    owned = loader.layout.rows(jax.process_index()).tolist()
    assert owned == ([0, 1, 4, 5] if jax.process_index() == 0 else [2, 3, 6, 7])


def b4_loading_goes_on_while_the_others_are_stopped(folder: str) -> None:
    loader = build(folder, NamedSharding(mesh_of(data=len(jax.devices())), PartitionSpec("data")))
    others = multihost_utils.process_allgather(np.int64(os.getpid()))[1:]
    with iter(loader) as batches:
        next(batches)
        multihost_utils.sync_global_devices("before the stop")
        if jax.process_index() == 0:
            for pid in others.tolist():
                os.kill(pid, signal.SIGSTOP)
            try:
                steps = [next(batches) for _ in range(10)]
                jax.block_until_ready(steps)
            finally:
                for pid in others.tolist():
                    os.kill(pid, signal.SIGCONT)
            assert batches.step == 11
        else:
            time.sleep(0.5)
        multihost_utils.sync_global_devices("after the stop")


def trees_of_other_leaves_are_an_error_not_a_hang(folder: str) -> None:
    del folder
    leaf = jax.numpy.ones(3)
    with pytest.raises(tjb.AgreementError, match=r"b: missing on process 0"):
        tjb.check_replicas({"a": leaf} if jax.process_index() == 0 else {"a": leaf, "b": leaf})
    with pytest.raises((tjb.ConfigError, tjb.AgreementError), match="arrays on devices; a is a"):
        tjb.check_replicas({"a": leaf} if jax.process_index() == 0 else {"a": np.ones(3)})


def arrays_placed_otherwise_are_an_error_on_all(folder: str) -> None:
    del folder
    mesh = mesh_of(data=len(jax.devices()))
    specs = [PartitionSpec("data"), PartitionSpec()]
    sharding = NamedSharding(mesh, specs[jax.process_index()])
    array = jax.make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index])
    with pytest.raises(tjb.AgreementError, match=r"these differ: x: int\d+\[4\] by"):
        tjb.check_replicas({"x": array})


def a_large_tree_needs_more_than_one_message(folder: str) -> None:
    del folder
    sharding = NamedSharding(mesh_of(data=len(jax.devices())), PartitionSpec())
    tree = {
        f"a_rather_long_name_of_layer_{i}": jax.device_put(np.ones(2), sharding) for i in range(200)
    }
    tjb.check_replicas(tree)


def a_file_that_one_process_lacks_is_an_error_on_all(folder: str) -> None:
    with tempfile.TemporaryDirectory() as mine:
        copy = Path(shutil.copytree(folder, f"{mine}/numbers/1.0.0"))
        if jax.process_index() == 1:
            next(copy.glob("*-train*-00002-of-00003")).unlink()
        with pytest.raises((tjb.RecordError, tjb.AgreementError), match=r"of 3, .* is missing"):
            tjb.build(str(copy), global_batch_size=ROWS)


def splits_of_tfds_are_those_of_all_processes(folder: str) -> None:
    split = tfds.core.ReadInstruction("train", to=10) + "test[:2]"
    assert tjb.build(folder, split=split, global_batch_size=ROWS).num_examples == 12
    # A loader shares the batch out by itself.
    with pytest.raises(tjb.AgreementError, match=r"split: process 0 has .*index=0"):
        tjb.build(folder, split=tfds.split_for_jax_process("train"), global_batch_size=ROWS)


SCENARIOS: dict[tuple[int, int], list[Callable[[str], None]]] = {
    (4, 1): [
        a1_replica_groups_load_equal_rows,
        a5_an_array_replicated_over_all_processes,
        a6_each_feature_lands_as_its_spec_says,
        b4_loading_goes_on_while_the_others_are_stopped,
    ],
    (2, 1): [
        a2_replicas_filled_by_hand_are_found_unequal,
        a5_an_array_replicated_over_all_processes,
        a6_each_feature_lands_as_its_spec_says,
        trees_of_other_leaves_are_an_error_not_a_hang,
        arrays_placed_otherwise_are_an_error_on_all,
        a_large_tree_needs_more_than_one_message,
        a_file_that_one_process_lacks_is_an_error_on_all,
        splits_of_tfds_are_those_of_all_processes,
    ],
    (2, 2): [
        b1_host_local_rows_under_a_device_spec_are_found_unequal,
        b3_host_local_conversion_differs_on_a_permuted_mesh,
    ],
}


def main(folder: str) -> None:
    """Run what fits the number of processes and devices; print each scenario that held.

    Args:
        folder: Folder of `Numbers`.
    """
    for scenario in SCENARIOS[jax.process_count(), jax.local_device_count()]:
        scenario(folder)
        print(f"held: {scenario.__name__}", flush=True)

# SPDX-License-Identifier: Apache-2.0
"""Unequal replicas are found on the devices of one process; real processes are in multiprocess/."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb

MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def array_of(
    shards: Sequence[npt.ArrayLike], shape: tuple[int, ...], spec: PartitionSpec
) -> jax.Array:
    """Return a global array of what each device is said to hold, unchecked, as JAX takes it."""
    placed = [
        jax.device_put(shard, device)
        for shard, device in zip(shards, MESH.devices.flat, strict=True)
    ]
    return jax.make_array_from_single_device_arrays(shape, NamedSharding(MESH, spec), placed)


def test_check_replicas_equal_trees_pass() -> None:
    sharding = NamedSharding(MESH, PartitionSpec("data"))
    tjb.check_replicas(
        {
            "image": jax.device_put(np.arange(16.0).reshape(8, 2), sharding),
            "half": jax.device_put(jnp.ones((8,), jnp.bfloat16), sharding),
            "scalar": jax.device_put(3, NamedSharding(MESH, PartitionSpec())),
            "nan": jax.device_put(np.full((8,), np.nan), sharding),
            "key": jax.random.key(0),
            "empty": jax.device_put(np.zeros((0, 3)), NamedSharding(MESH, PartitionSpec())),
            "nothing": None,
        }
    )


def test_check_replicas_names_leaf_slice_devices_and_process() -> None:
    good = np.arange(4.0).reshape(2, 2)
    bad = good + np.array([[0, 0], [0, 1e-6]])
    array = array_of([good, good, bad, good], (4, 2), PartitionSpec("data"))
    with pytest.raises(tjb.ReplicaMismatchError) as caught:
        tjb.check_replicas({"params": {"w": array}, "fine": jnp.ones(3)})
    message = str(caught.value)
    assert "Devices that hold the same slice of an array hold equal values" in message
    assert (
        "params/w[2:4, :]: value 1 on device 2 of process 0; value 2 on device 3 of process 0"
        in message
    )
    assert "[0:2" not in message
    assert "fine" not in message
    assert "PartitionSpec(('host', 'device'))" in message


def test_check_replicas_scalar_and_whole_array() -> None:
    array = array_of([np.float32(i) for i in range(4)], (), PartitionSpec())
    with pytest.raises(tjb.ReplicaMismatchError, match=r"the array\[\]: value 1 on device 0 of"):
        tjb.check_replicas(array)


def test_check_replicas_many_mismatches_are_cut() -> None:
    arrays = [array_of([np.float32(i) for i in range(4)], (), PartitionSpec()) for _ in range(9)]
    with pytest.raises(tjb.ReplicaMismatchError, match="… and 4 more"):
        tjb.check_replicas(arrays)


@given(st.data())
def test_check_replicas_finds_exactly_the_changed_slices(data: st.DataObject) -> None:
    spec = data.draw(
        st.sampled_from(
            [
                PartitionSpec("data"),
                PartitionSpec("model", None),
                PartitionSpec(None, "data"),
                PartitionSpec(),
                PartitionSpec(("data", "model")),
            ]
        )
    )
    whole = np.arange(16, dtype=np.int32).reshape(4, 4)
    indices = list(NamedSharding(MESH, spec).devices_indices_map(whole.shape).values())
    shards = [whole[index].copy() for index in indices]
    changed = data.draw(st.sets(st.integers(0, 3), max_size=3))
    for device in changed:
        shards[device].flat[0] += 100
    holders = [[i for i in range(4) if indices[i] == index] for index in indices]
    expected = {holders[i][0] for i in changed if any(other not in changed for other in holders[i])}
    array = array_of(shards, whole.shape, spec)
    if not expected:
        tjb.check_replicas({"x": array})
        return
    with pytest.raises(tjb.ReplicaMismatchError) as caught:
        tjb.check_replicas({"x": array})
    assert str(caught.value).count("\n  x[") == len(expected)


def test_check_replicas_leaf_that_is_no_array_is_refused() -> None:
    with pytest.raises(tjb.ConfigError, match=r"arrays on devices; a/b is a ndarray. Leave it out"):
        tjb.check_replicas({"a": {"b": np.zeros(3)}})


def test_check_replicas_deleted_array_is_refused() -> None:
    array = jnp.ones(3)
    array.delete()
    with pytest.raises(tjb.ConfigError, match=r"x is donated\. .*before the step"):
        tjb.check_replicas({"x": array})

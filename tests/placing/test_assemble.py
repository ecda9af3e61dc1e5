# SPDX-License-Identifier: Apache-2.0
"""Every device gets its part; no value changes on the way."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches.errors import FeatureError
from tfjax_batches.placing.assemble import Assembler, device_dtype, to_device_dtype


def mesh_of(order: list[int]) -> Mesh:
    return Mesh(np.array(jax.devices())[order].reshape(2, 2), ("data", "model"))


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3], [3, 2, 0, 1]])
@pytest.mark.parametrize(
    "spec",
    [
        PartitionSpec("data"),
        PartitionSpec(("model", "data")),
        PartitionSpec("data", "model"),
        PartitionSpec(None, ("data", "model")),
        PartitionSpec("model", None, "data"),
        PartitionSpec(),
    ],
)
def test_assembler_places_each_slice_on_its_device(order: list[int], spec: PartitionSpec) -> None:
    sharding = NamedSharding(mesh_of(order), spec)
    values = np.arange(8 * 4 * 6).reshape(8, 4, 6).astype(np.int32)
    struct = jax.ShapeDtypeStruct(values.shape, values.dtype, sharding=sharding)
    array = Assembler({("x",): struct}, np.arange(8))({("x",): values})[("x",)]
    assert array.sharding == sharding
    np.testing.assert_array_equal(array, values)
    for shard in array.addressable_shards:
        np.testing.assert_array_equal(shard.data, values[shard.index])


def test_assembler_runs_under_a_transfer_guard() -> None:
    sharding = NamedSharding(mesh_of([0, 1, 2, 3]), PartitionSpec("data"))
    struct = jax.ShapeDtypeStruct((8, 3), np.dtype(np.float32), sharding=sharding)
    assembler = Assembler({("x",): struct}, np.arange(8))
    with jax.transfer_guard("disallow"):
        assembler({("x",): np.ones((8, 3), np.float32)})


def test_to_device_dtype_values_in_range_become_32_bits() -> None:
    ends = np.array([-(2**31), 2**31 - 1])
    narrow = to_device_dtype(("n",), ends, device_dtype(np.dtype("int64")))
    assert narrow.dtype == np.int32
    assert narrow.tolist() == ends.tolist()
    exact = np.array([0.5, np.nan, np.inf])
    np.testing.assert_array_equal(to_device_dtype(("d",), exact, np.dtype(np.float32)), exact)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("n", np.array([1, 2**31]), r"'n'.* int64 .*2147483648 .*_x64.*keep_on_host=\('n',\)"),
        ("n", np.array([2**32], np.uint64), "'n'.* uint64 .*4294967296 .*uint32.*jax_enable_x64"),
        ("n", np.array([0.1]), r"'n'.* float64 .*0\.1 .*float32.*_x64.*cast\('float32', 'n'\)"),
        ("n", np.array([1e300]), r"'n'.* float64 .*1e\+300 .*float32.*cast\('float32', 'n'\)"),
        ("_id", np.array([2**31]), "'_id'.* int64 .*2147483648 .*jax_enable_x64.*with_ids=False"),
    ],
)
def test_to_device_dtype_value_that_would_change_is_refused(
    name: str, values: np.ndarray, words: str
) -> None:
    with pytest.raises(FeatureError, match=f"unchanged; .*{words}"):
        to_device_dtype((name,), values, device_dtype(values.dtype))


def test_to_device_dtype_with_x64_is_untouched() -> None:
    with jax.enable_x64(True):
        assert device_dtype(np.dtype(np.int64)) == np.int64

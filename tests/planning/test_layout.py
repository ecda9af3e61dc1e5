# SPDX-License-Identifier: Apache-2.0
"""Which rows each process holds, against JAX and against an independent count."""

import itertools
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.strategies import layouts
from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.partition_spec import PartitionEntries


def rows_counted_by_hand(layout: BatchLayout, process_index: int) -> list[int]:
    """Walk the devices one by one, in plain Python."""
    names = [name for name, _ in layout.mesh_shape]
    sizes = dict(layout.mesh_shape)
    rows: set[int] = set()
    places = itertools.product(*(range(size) for _, size in layout.mesh_shape))
    for place, owner in zip(places, layout.process_of_device, strict=True):
        if owner != process_index:
            continue
        at = dict(zip(names, place, strict=True))
        first, count = 0, layout.global_batch_size
        for axis in layout.data_axes:
            count //= sizes[axis]
            first += at[axis] * count
        rows.update(range(first, first + count))
    return sorted(rows)


@given(layouts())
def test_rows_any_layout_equal_an_independent_count(layout: BatchLayout) -> None:
    for process_index in range(layout.process_count):
        rows = layout.rows(process_index)
        assert rows.tolist() == rows_counted_by_hand(layout, process_index)
        assert layout.process_batch_size(process_index) == len(rows)


@pytest.mark.parametrize("spec", [("data",), ("model",), (("model", "data"),), ((),), (None,), ()])
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3], [3, 1, 0, 2]])
def test_from_sharding_equals_devices_indices_map(spec: PartitionEntries, order: list[int]) -> None:
    mesh = Mesh(np.array(jax.devices())[order].reshape(2, 2), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    layout = BatchLayout.from_sharding(sharding, 8)
    # As if each device were a process of its own.
    alone = BatchLayout.simulate(mesh.shape, spec, 8, np.arange(4).reshape(2, 2))
    expected = sharding.devices_indices_map((8,))
    for process_index, device in enumerate(mesh.devices.flat):
        rows = np.arange(8)[expected[device]]
        np.testing.assert_array_equal(alone.rows(process_index), rows)
    np.testing.assert_array_equal(layout.rows(0), np.arange(8))


@pytest.mark.parametrize(
    ("mesh_shape", "data_axes", "owners", "groups", "rows_of_0"),
    [
        # model axis first: processes 0 and 1 hold different rows
        ({"model": 2, "data": 2}, "data", 4, ((0, 2), (1, 3)), [0, 1, 2, 3]),
        ({"data": 2, "model": 2}, "data", 4, ((0, 1), (2, 3)), [0, 1, 2, 3]),
        # hosts as 2 × 2 tiles of a (4, 4) mesh
        (
            {"data": 4, "model": 4},
            "data",
            [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]],
            ((0, 1), (2, 3)),
            [0, 1, 2, 3],
        ),
        # eight processes of one device on (2, 4)
        ({"data": 2, "model": 4}, "data", 8, ((0, 1, 2, 3), (4, 5, 6, 7)), [0, 1, 2, 3]),
        # one process with one slice beside one with two
        ({"data": 2, "model": 2}, "data", [[0, 1], [1, 1]], ((0,), (1,)), [0, 1, 2, 3]),
        # devices in the order 0, 2, 1, 3
        ({"data": 4}, "data", [0, 2, 1, 3], ((0,), (2,), (1,), (3,)), [0, 1]),
        # fewer rows than processes
        ({"data": 2, "model": 4}, (("data",),), 8, ((0, 1, 2, 3), (4, 5, 6, 7)), [0, 1, 2, 3]),
        # replica × data × model, over two of them
        (
            {"replica": 2, "data": 2, "model": 2},
            (("replica", "data"),),
            8,
            ((0, 1), (2, 3), (4, 5), (6, 7)),
            [0, 1],
        ),
        ({"data": 2, "model": 2}, (), 4, ((0, 1, 2, 3),), list(range(8))),
    ],
)
def test_replica_groups_of_known_meshes(
    mesh_shape: dict[str, int],
    data_axes: str | PartitionEntries,
    owners: npt.ArrayLike,
    groups: tuple[tuple[int, ...], ...],
    rows_of_0: list[int],
) -> None:
    layout = BatchLayout.simulate(mesh_shape, data_axes, 8, owners)
    assert layout.replica_groups == groups
    assert layout.rows(0).tolist() == rows_of_0


def test_rows_uneven_ownership_is_the_union_of_slices() -> None:
    layout = BatchLayout.simulate({"data": 2, "model": 2}, "data", 8, [[0, 1], [1, 1]])
    assert layout.rows(1).tolist() == list(range(8))
    assert layout.process_batch_size(0) == 4


def test_rows_batch_of_two_on_four_processes() -> None:
    layout = BatchLayout.simulate({"data": 2, "model": 2}, "data", 2, 4)
    assert [layout.rows(index).tolist() for index in range(4)] == [[0], [0], [1], [1]]


def test_feature_specs_rows_are_the_union() -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    layout = BatchLayout.from_sharding(
        NamedSharding(mesh, PartitionSpec("data")),
        8,
        {"other": NamedSharding(mesh, PartitionSpec("model"))},
    )
    as_processes = BatchLayout(
        mesh_shape=layout.mesh_shape,
        process_of_device=(0, 1, 2, 3),
        spec=layout.spec,
        feature_specs=layout.feature_specs,
        global_batch_size=8,
    )
    lower, upper = list(range(4)), list(range(4, 8))
    assert as_processes.rows(0).tolist() == lower
    assert as_processes.rows(1).tolist() == lower + upper
    assert as_processes.rows(3).tolist() == upper
    assert as_processes.replica_groups == ((0,), (1, 2), (3,))


def test_layout_is_equal_by_value() -> None:
    one = BatchLayout.simulate({"data": 4}, "data", 8, 2)
    assert one == BatchLayout.simulate({"data": 4}, ("data",), 8, [0, 0, 1, 1])
    assert one != BatchLayout.simulate({"data": 4}, "data", 8, 4)
    assert hash(one) == hash(BatchLayout.simulate({"data": 4}, "data", 8, 2))


def test_layout_of_4096_processes() -> None:
    layout = BatchLayout.simulate({"data": 512, "model": 32}, "data", 4096, 4096)
    rows = [layout.rows(index) for index in range(4096)]
    assert len(layout.replica_groups) == 512
    assert rows[4095].tolist() == list(range(4088, 4096))


@pytest.mark.parametrize(
    ("mesh_shape", "spec", "rows", "owners", "texts"),
    [
        (
            {"data": 4},
            "data",
            6,
            1,
            ["divide", "data=4", "global_batch_size=6", "is 4 or 8"],
        ),
        ({"data": 4}, "data", 2, 1, ["data=4", "global_batch_size=2", "is 4."]),
        ({"data": 2, "model": 2}, "modle", 8, 1, ["'modle'", "data=2 × model=2", "'model'?"]),
        ({"data": 2}, (("data", "data"),), 8, 1, ["each once", "'data'", "('data', 'data')"]),
        (
            {"data": 2, "model": 2},
            ("data", "data"),
            8,
            1,
            ["each once", "Known: 'model'"],
        ),
        ({"data": 4}, "data", 8, 3, ["equal numbers", "3 processes", "process_of_device"]),
        ({"data": 4}, "data", 8, [0, 1], ["process index", "[2]", "int array"]),
        ({"data": 4}, "data", 8, [0, 1, 2, -1], ["process index >= 0", "int array"]),
        ({"data": 0}, "data", 8, 1, ["at least 1", "{'data': 0}"]),
        ({"data": "2"}, "data", 8, 1, ["integer sizes", "{'data': '2'}", "Write {'data'"]),
        ({"data": 4}, "data", 8.0, 1, ["must be an integer", "got 8.0"]),
        ({"data": 4}, "data", 2**40, 1, ["below 2**31"]),
        ({"data": 4}, "data", 8, 1.5, ["process index", "int array"]),
        ({"data": 4}, "data", 8, None, ["process index", "int array"]),
        ({"data": 4}, "data", 0, 1, ["at least 1", "got 0"]),
        ({"data": 4}, (3,), 8, 1, ["entries", "got (3,)", "mesh axes"]),
    ],
)
def test_layout_that_cannot_be_is_refused(
    mesh_shape: dict[str, Any], spec: Any, rows: Any, owners: Any, texts: list[str]
) -> None:
    with pytest.raises(LayoutError) as caught:
        BatchLayout.simulate(mesh_shape, spec, rows, owners)
    for text in texts:
        assert text in str(caught.value)


def test_simulate_process_indices_may_have_gaps() -> None:
    layout = BatchLayout.simulate({"data": 2}, "data", 8, [0, 10**9])
    assert layout.replica_groups == ((0,), (10**9,))
    assert layout.rows(10**9).tolist() == [4, 5, 6, 7]
    assert layout.rows(5).size == 0


def test_rows_of_unknown_process_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="0 <= index < 2; got 2"):
        BatchLayout.simulate({"data": 4}, "data", 8, 2).rows(2)


def test_describe_names_rows_groups_and_reads() -> None:
    layout = BatchLayout.simulate({"data": 2, "model": 2}, "data", 8, 4)
    assert str(layout.describe()) == (
        "8 rows on mesh data=2 × model=2, partition spec P('data')\n"
        "  processes  4 processes with 4 devices, in 2 replica groups\n"
        "  reads      each row is read 2 times\n"
        "\n"
        "  processes  rows  count\n"
        "  0–1        0–3       4\n"
        "  2–3        4–7       4"
    )

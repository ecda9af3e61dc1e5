# SPDX-License-Identifier: Apache-2.0
"""Shardings that are not all on one mesh of devices, and what is said of them."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.layout import BatchLayout

DEVICES = np.array(jax.devices())
MESH = Mesh(DEVICES.reshape(2, 2), ("data", "model"))


def mesh_of(*kinds: AxisType) -> Mesh:
    return jax.make_mesh((2, 2), ("data", "model"), axis_types=kinds)


def layout_of(mesh: Mesh, feature_mesh: Mesh | None = None) -> BatchLayout:
    """Return the layout of eight rows, with a feature `x` on a mesh of its own."""
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    own = NamedSharding(feature_mesh or mesh, PartitionSpec("data"))
    return BatchLayout.from_sharding(sharding, 8, {"x": own})


@pytest.mark.parametrize(
    "sharding",
    [
        None,
        "data",
        PartitionSpec("data"),
        Mesh(DEVICES, ("data",)),
        jax.sharding.SingleDeviceSharding(jax.devices()[0]),
        NamedSharding(jax.sharding.AbstractMesh((4,), ("data",)), PartitionSpec("data")),
    ],
)
def test_what_is_no_named_sharding_on_devices_is_refused(sharding: object) -> None:
    good = NamedSharding(MESH, PartitionSpec("data"))
    with pytest.raises(LayoutError, match=r"one Mesh.*; sharding is"):
        BatchLayout.from_sharding(sharding, 8)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match=r"feature_shardings\['x'\] is .*NamedSharding\(mesh"):
        BatchLayout.from_sharding(good, 8, {"x": sharding})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("mesh", "texts"),
    [
        (Mesh(DEVICES, ("data",)), ["its mesh is data=4, not data=2 × model=2"]),
        (
            Mesh(DEVICES[[0, 2, 1, 3]].reshape(2, 2), ("data", "model")),
            [f"it has device {DEVICES[2]} where", f"has {DEVICES[1]}.", "in one order"],
        ),
        (mesh_of(AxisType.Explicit, AxisType.Auto), ["'data': 'Explicit'", "not {'data': 'Auto'"]),
    ],
    ids=["axes", "devices", "types"],
)
def test_another_mesh_is_refused_by_its_difference(mesh: Mesh, texts: list[str]) -> None:
    with pytest.raises(LayoutError) as caught:
        layout_of(MESH, mesh)
    for text in ["feature_shardings['x']", "from the same Mesh", *texts]:
        assert text in str(caught.value)


def test_manual_axis_is_refused_by_its_name() -> None:
    for kind in (AxisType.Auto, AxisType.Explicit):
        with pytest.raises(LayoutError, match=r"axis 'model' of sharding is Manual\. Make"):
            layout_of(mesh_of(kind, AxisType.Manual))
    assert layout_of(mesh_of(AxisType.Explicit, AxisType.Auto)).data_axes == ("data",)

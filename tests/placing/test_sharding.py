# SPDX-License-Identifier: Apache-2.0
"""Which sharding each entry of a batch gets."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches.errors import LayoutError
from tfjax_batches.placing.sharding import data_sharding, feature_sharding, shardings_by_path

MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))


def test_data_sharding_without_a_mesh_is_all_devices_on_data() -> None:
    sharding = data_sharding()
    assert sharding.mesh.shape == {"data": 4}
    assert sharding.spec == PartitionSpec(("data",))


@pytest.mark.parametrize("axes", ["model", ("model",), ("data", "model"), ()])
def test_data_sharding_takes_any_axes(axes: str | tuple[str, ...]) -> None:
    expected = PartitionSpec((axes,) if isinstance(axes, str) else axes) if axes else None
    assert data_sharding(MESH, axes).spec == (expected or PartitionSpec())


def test_data_sharding_unknown_axis_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"data_axes .*'dta'.*'data'\?"):
        data_sharding(MESH, ("dta",))


@pytest.mark.parametrize("axes", [None, 5, ("data", "data"), (3,)])
def test_data_sharding_axes_of_another_kind_are_refused(axes: object) -> None:
    with pytest.raises(LayoutError, match="data_axes names"):
        data_sharding(MESH, axes)  # type: ignore[arg-type]


def test_data_sharding_what_is_no_mesh_of_devices_is_refused() -> None:
    for mesh in ("data", 5, jax.sharding.AbstractMesh((4,), ("data",))):
        with pytest.raises(LayoutError, match=r"Mesh of devices; got .*mesh=Mesh\("):
            data_sharding(mesh)  # type: ignore[arg-type]


def test_feature_sharding_keeps_the_memory_kind() -> None:
    kind = jax.devices()[0].default_memory().kind
    common = NamedSharding(MESH, PartitionSpec("data"), memory_kind=kind)
    assert feature_sharding(("x",), (8, 3), common, {}).memory_kind == kind


def test_feature_sharding_common_spec_is_cut_to_the_rank() -> None:
    common = NamedSharding(MESH, PartitionSpec("data", "model"))
    assert feature_sharding(("label",), (8,), common, {}).spec == PartitionSpec("data")
    assert feature_sharding(("x",), (8, 4, 2), common, {}).spec == PartitionSpec("data", "model")


def test_feature_sharding_own_spec_longer_than_the_rank_is_refused() -> None:
    common = NamedSharding(MESH, PartitionSpec("data"))
    own = NamedSharding(MESH, PartitionSpec("data", "model"))
    with pytest.raises(LayoutError, match=r"one entry .*'label' is \[8\].*Pass another"):
        feature_sharding(("label",), (8,), common, {("label",): own})


def test_feature_sharding_dim_that_axes_do_not_divide_is_refused() -> None:
    common = NamedSharding(MESH, PartitionSpec("data", "model"))
    with pytest.raises(LayoutError, match=r"divide .*'x' is \[8, 3\].*feature_shardings\['x'\]"):
        feature_sharding(("x",), (8, 3), common, {})


def test_shardings_by_path_find_each_name() -> None:
    own = NamedSharding(MESH, PartitionSpec("model"))
    known = [("image",), ("image/size",), ("objects", "bbox")]
    assert shardings_by_path({"objects/bbox": own, "image/size": own, ("image",): own}, known) == {
        ("objects", "bbox"): own,
        ("image/size",): own,
        ("image",): own,
    }
    with pytest.raises(LayoutError, match=r"'imgae' .*Did you mean 'image'\?"):
        shardings_by_path({"imgae": own}, known)
    with pytest.raises(LayoutError, match=r"'objects' .*Did you mean 'objects/bbox'\?"):
        shardings_by_path({"objects": own}, known)

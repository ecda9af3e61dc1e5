# SPDX-License-Identifier: Apache-2.0
"""All shardings of a batch are on one mesh of devices. JAX is not imported for it."""

from collections.abc import Mapping
from typing import Any

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.partition_spec import mesh_text


def check_one_mesh(shardings: Mapping[str, Any]) -> None:
    """Check that shardings are on the mesh of the first of them, and that batches can be there.

    Args:
        shardings: What should be a `NamedSharding`, by the argument that holds it.

    Raises:
        LayoutError: One is no sharding on a mesh of devices, or is on another mesh, or an axis of
            the mesh is Manual.
    """
    first = next(iter(shardings.values()))
    for owner, sharding in shardings.items():
        if not _is_on_devices(sharding):
            raise LayoutError(
                "All shardings of a batch are NamedShardings on one Mesh of devices; "
                f"{owner} is {sharding!r}. Make each from the same Mesh, as in "
                "NamedSharding(mesh, PartitionSpec('data'))."
            )
        if manual := [name for name, kind in _axis_kinds(sharding.mesh) if kind == "Manual"]:
            raise LayoutError(
                "The axes of a mesh that holds batches are Auto or Explicit; "
                f"axis {manual[0]!r} of {owner} is Manual. Make the mesh without axis_types, and "
                "leave Manual to jax.shard_map."
            )
        if sharding.mesh != first.mesh:
            raise LayoutError(
                f"All shardings of a batch are on one Mesh, with its devices in one order; {owner} "
                f"is on another: {_difference(sharding.mesh, first.mesh)}. Make all of them, "
                "sharding too, from the same Mesh, as in NamedSharding(mesh, spec)."
            )


def _is_on_devices(sharding: Any) -> bool:
    try:
        return hasattr(sharding, "spec") and hasattr(sharding.mesh, "devices")
    except (AttributeError, ValueError):  # an AbstractMesh has no devices
        return False


def _axis_kinds(mesh: Any) -> list[tuple[str, str]]:
    """Return name and axis type of each axis."""
    return [(n, kind.name) for n, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)]


def _difference(mesh: Any, first: Any) -> str:
    """Return in which way a mesh is not the first one."""
    if (shape := tuple(mesh.shape.items())) != (wanted := tuple(first.shape.items())):
        return f"its mesh is {mesh_text(shape)}, not {mesh_text(wanted)}"
    for device, expected in zip(mesh.devices.flat, first.devices.flat, strict=True):
        if device != expected:
            return f"it has device {device} where the mesh of sharding has {expected}"
    return f"its axis types are {dict(_axis_kinds(mesh))}, not {dict(_axis_kinds(first))}"

# SPDX-License-Identifier: Apache-2.0
"""The sharding of each entry of a batch."""

from collections.abc import Collection, Mapping, Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches.errors import LayoutError, nearest_hint
from tfjax_batches.features.paths import Name, Path, feature_hint, find_feature, path_text


def data_sharding(
    mesh: Mesh | None = None, data_axes: str | Sequence[str] = ("data",)
) -> NamedSharding:
    """Return the usual sharding of a batch: `data_axes` split dim 0, no other dim is split.

    Args:
        mesh: The mesh. None: all devices of all processes on one axis `data`.
        data_axes: Mesh axes that split dim 0, the slowest first.

    Returns:
        A sharding for arrays [global_batch, ...].

    Raises:
        LayoutError: `mesh` has no devices, or `data_axes` names an axis that it lacks.

    Example::

        mesh = jax.make_mesh((4, 2), ("data", "model"))
        loader = tjb.build("mnist", tjb.data_sharding(mesh), global_batch_size=256)
    """
    if mesh is None:
        mesh = Mesh(np.array(jax.devices()), ("data",))
    if not isinstance(mesh, Mesh):
        raise LayoutError(
            f"data_sharding takes a Mesh of devices; got {mesh!r}. "
            "Pass mesh=Mesh(np.array(jax.devices()), ('data',)), or leave it out."
        )
    axes = (data_axes,) if isinstance(data_axes, str) else data_axes
    check_data_axes(axes, mesh.axis_names)
    return NamedSharding(mesh, PartitionSpec(tuple(axes)) if axes else PartitionSpec())


def check_data_axes(data_axes: object, axis_names: Sequence[str]) -> None:
    """Raise LayoutError unless `data_axes` names different axes of a mesh."""
    names = data_axes if isinstance(data_axes, tuple | list) else (data_axes,)
    unknown = [name for name in names if name not in axis_names]
    if unknown or len(set(names)) < len(names):
        fix = nearest_hint(str(unknown[0]), axis_names) if unknown else "Name each axis once."
        raise LayoutError(f"data_axes names different axes of the mesh; got {data_axes!r}. {fix}")


def feature_sharding(
    path: Path,
    shape: tuple[int, ...],
    sharding: NamedSharding,
    feature_shardings: Mapping[Path, NamedSharding],
) -> NamedSharding:
    """Return the sharding of one entry of the batch.

    The common sharding is cut to the rank of the feature; one given by name must fit.

    Raises:
        LayoutError: The sharding does not fit the global shape.
    """
    own = feature_shardings.get(path)
    if own is None:
        spec = PartitionSpec(*tuple(sharding.spec)[: len(shape)])
        own = NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind)
    try:
        own.shard_shape(shape)
    except (ValueError, IndexError) as error:  # IndexError: more entries than dims
        name = path_text(path)
        raise LayoutError(
            "A PartitionSpec has at most one entry for each dim of its feature, whose mesh axes "
            f"divide that dim; feature {name!r} is {list(shape)}, batch dim included, and its "
            f"sharding is {own.spec} on {own.mesh}. Pass another one in "
            f"feature_shardings[{name!r}]."
        ) from error
    return own


def shardings_by_path(
    feature_shardings: Mapping[Name, NamedSharding], known: Collection[Path]
) -> dict[Path, NamedSharding]:
    """Return `feature_shardings` by path.

    Args:
        feature_shardings: As for `build`.
        known: Paths of what a batch has on the devices.

    Raises:
        LayoutError: A name is that of no such feature.
    """
    found: dict[Path, NamedSharding] = {}
    for name, sharding in feature_shardings.items():
        if (path := find_feature(name, known)) is None:
            raise LayoutError(
                f"feature_shardings names entries of the batch; {name!r} is not one. "
                f"{feature_hint(name, known)}"
            )
        found[path] = sharding
    return found

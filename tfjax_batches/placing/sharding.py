# SPDX-License-Identifier: Apache-2.0
"""The sharding of each entry of a batch."""

from collections.abc import Iterable, Mapping, Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches.errors import LayoutError, nearest_hint


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
    """Check that `data_axes` names different axes of a mesh.

    Args:
        data_axes: A tuple or list of names.
        axis_names: The axes of the mesh.

    Raises:
        LayoutError: It does not.
    """
    if not isinstance(data_axes, tuple | list) or len(set(data_axes)) < len(data_axes):
        raise LayoutError(
            f"data_axes names different axes of the mesh; got {data_axes!r}. "
            f"Name some of {tuple(axis_names)}."
        )
    for axis in data_axes:
        if axis not in axis_names:
            raise LayoutError(
                f"data_axes names axes of the mesh; {axis!r} is not one of {tuple(axis_names)}. "
                f"{nearest_hint(str(axis), axis_names)}"
            )


def feature_sharding(
    path: str,
    shape: tuple[int, ...],
    sharding: NamedSharding,
    feature_shardings: Mapping[str, NamedSharding],
) -> NamedSharding:
    """Return the sharding of one entry of the batch.

    The common sharding is cut to the rank of the feature; one given by name must fit.

    Args:
        path: Path of the entry.
        shape: Its global shape.
        sharding: The common sharding.
        feature_shardings: Shardings by path, used in place of `sharding`.

    Raises:
        LayoutError: The feature's own partition spec has more entries than the feature has dims,
            or the mesh axes of an entry do not divide its dim.
    """
    own = feature_shardings.get(path)
    if own is None:
        spec = PartitionSpec(*tuple(sharding.spec)[: len(shape)])
        own = NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind)
    elif len(own.spec) > len(shape):
        raise LayoutError(
            "A PartitionSpec has at most one entry for each dim of its feature; feature "
            f"{path!r} is {list(shape)}, batch dim included, and feature_shardings[{path!r}] is "
            f"{own.spec} on {own.mesh}. Drop the extra entries."
        )
    try:
        own.shard_shape(shape)
    except ValueError as error:
        raise LayoutError(
            "The mesh axes of each entry of a PartitionSpec divide its dim; feature "
            f"{path!r} is {list(shape)}, and its sharding is {own.spec} on {own.mesh}. Pass "
            f"another one in feature_shardings[{path!r}]."
        ) from error
    return own


def check_feature_names(named: Iterable[str], known: Iterable[str]) -> None:
    """Check the names in `feature_shardings`.

    Args:
        named: Paths that `feature_shardings` names.
        known: Paths of the entries of a batch on the devices.

    Raises:
        LayoutError: A path names no entry.
    """
    known = list(known)
    for name in named:
        if name not in known:
            raise LayoutError(
                f"feature_shardings names entries of the batch; {name!r} is not one. "
                f"{nearest_hint(name, known)}"
            )

# SPDX-License-Identifier: Apache-2.0
"""Which sharding each entry of a batch gets."""

from collections.abc import Iterable, Mapping, Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfjax_batches.errors import LayoutError, nearest_hint


def data_sharding(
    mesh: Mesh | None = None, data_axes: str | Sequence[str] = ("data",)
) -> NamedSharding:
    """Return the usual sharding of a batch: dim 0 over `data_axes`, all else whole.

    Args:
        mesh: A mesh. None: all devices of all processes on one axis `data`.
        data_axes: Mesh axes that split dim 0.

    Raises:
        LayoutError: An axis that the mesh does not have.
    """
    if mesh is None:
        mesh = Mesh(np.array(jax.devices()), ("data",))
    if not isinstance(mesh, Mesh):
        raise LayoutError(
            f"data_sharding takes a Mesh of devices; got {mesh!r}. "
            "Write Mesh(np.array(jax.devices()), ('data',)), or leave it out."
        )
    axes = (data_axes,) if isinstance(data_axes, str) else data_axes
    if not isinstance(axes, tuple | list) or len(set(axes)) < len(axes):
        raise LayoutError(
            f"data_axes names different axes of the mesh; got {data_axes!r}. "
            f"Name some of {mesh.axis_names}."
        )
    for axis in axes:
        if axis not in mesh.axis_names:
            raise LayoutError(
                f"data_axes names axes of the mesh; {axis!r} is none of {mesh.axis_names}. "
                f"{nearest_hint(str(axis), mesh.axis_names)}"
            )
    return NamedSharding(mesh, PartitionSpec(tuple(axes)) if axes else PartitionSpec())


def feature_sharding(
    path: str,
    shape: tuple[int, ...],
    sharding: NamedSharding,
    feature_shardings: Mapping[str, NamedSharding],
) -> NamedSharding:
    """Return the sharding of one entry of the batch.

    The common sharding is cut to the rank of each feature; one given by name must fit.

    Args:
        path: The entry.
        shape: Its global shape.
        sharding: The common sharding.
        feature_shardings: Shardings by path.

    Raises:
        LayoutError: The feature's own spec has more entries than the feature has dims, or the
            axes of an entry do not divide its dim.
    """
    own = feature_shardings.get(path)
    if own is None:
        spec = PartitionSpec(*tuple(sharding.spec)[: len(shape)])
        own = NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind)
    elif len(own.spec) > len(shape):
        raise LayoutError(
            "A spec has no more entries than its feature has dims; feature "
            f"{path!r} is {list(shape)}, batch dim included, and feature_shardings[{path!r}] is "
            f"{own.spec} on {own.mesh}. Drop the entries beyond."
        )
    try:
        own.shard_shape(shape)
    except ValueError as error:
        raise LayoutError(
            f"The axes of a spec entry divide its dim; feature {path!r} is {list(shape)}, its "
            f"spec {own.spec} on {own.mesh}. Give it another one in feature_shardings."
        ) from error
    return own


def check_feature_names(named: Iterable[str], known: Iterable[str]) -> None:
    """Raise LayoutError when `feature_shardings` names what no batch will hold."""
    known = list(known)
    for name in named:
        if name not in known:
            raise LayoutError(
                f"feature_shardings names entries of the batch; {name!r} is none. "
                f"{nearest_hint(name, known)}"
            )

# SPDX-License-Identifier: Apache-2.0
"""Partition specs of shardings as plain values: which mesh axes split each dim."""

from collections.abc import Iterable
from typing import Any

from tfjax_batches.errors import LayoutError, nearest_hint

PartitionEntry = None | str | tuple[str, ...]
PartitionEntries = tuple[PartitionEntry, ...]
"""What a `jax.sharding.PartitionSpec` holds; planning does not import JAX."""


def to_entries(spec: Iterable[Any]) -> PartitionEntries:
    """Return the entries of a `PartitionSpec` as plain tuples, strings and None.

    Raises:
        LayoutError: An entry is of another type (such as `PartitionSpec.UNCONSTRAINED`), or the
            spec leaves arrays reduced or unreduced over some axes.
    """
    # Before its entries are read, which JAX refuses for such a spec.
    if getattr(spec, "reduced", None) or getattr(spec, "unreduced", None):
        raise LayoutError(
            "The PartitionSpec of a batch says only which mesh axes split each dim; got "
            f"{spec!r}. Leave reduced= and unreduced= out."
        )
    rule = "The entries of a PartitionSpec here are None, an axis or a tuple of axes"
    fix = "Name the mesh axes that split each dim."
    if not isinstance(spec, Iterable):
        raise LayoutError(f"{rule}; got {spec!r}. {fix}")
    entries = tuple(tuple(entry) if isinstance(entry, list) else entry for entry in spec)
    if not all(isinstance(axis, str) for entry in entries for axis in entry_axes(entry)):
        raise LayoutError(f"{rule}; got {spec!r}. {fix}")
    return entries


def check_entries(
    spec: PartitionEntries, mesh_shape: tuple[tuple[str, int], ...], owner: str
) -> None:
    """Check that a partition spec, which the argument `owner` holds, fits the mesh.

    Raises:
        LayoutError: It names an axis that the mesh lacks, or one axis twice.
    """
    free = [name for name, _ in mesh_shape]
    for axis in (axis for entry in spec for axis in entry_axes(entry)):
        if axis not in free:
            raise LayoutError(
                f"A PartitionSpec names axes of its mesh, each once; {owner} names {axis!r} in "
                f"{partition_text(spec)}, the mesh is {mesh_text(mesh_shape)}. "
                f"{nearest_hint(axis, free)}"
            )
        free.remove(axis)


def entry_axes(entry: PartitionEntry) -> tuple[str, ...]:
    """Return the axes that an entry names."""
    if entry is None:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def dim0_axes(spec: PartitionEntries) -> tuple[str, ...]:
    """Return the axes that split dim 0."""
    return entry_axes(spec[0]) if spec else ()


def mesh_text(mesh_shape: tuple[tuple[str, int], ...]) -> str:
    """Return the axes and sizes of a mesh, as in `data=4 × model=2`."""
    return " × ".join(f"{name}={size}" for name, size in mesh_shape) or "without axes"


def partition_text(spec: PartitionEntries) -> str:
    """Return a partition spec as a program writes it.

    Example:
        >>> partition_text((("host", "device"), None))
        "P(('host', 'device'), None)"
    """
    return f"P({', '.join(map(repr, spec))})"

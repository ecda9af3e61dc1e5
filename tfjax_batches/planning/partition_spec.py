# SPDX-License-Identifier: Apache-2.0
"""Partition specs of shardings as plain values: which mesh axes split each dim."""

from collections.abc import Iterable

from tfjax_batches.errors import LayoutError, nearest_hint

PartitionEntry = None | str | tuple[str, ...]
PartitionEntries = tuple[PartitionEntry, ...]
"""What a `jax.sharding.PartitionSpec` holds; planning does not import JAX."""


def to_entries(spec: Iterable[PartitionEntry]) -> PartitionEntries:
    """Return the entries of a `PartitionSpec` as plain tuples, strings and None.

    Raises:
        LayoutError: An entry is of another type (such as `PartitionSpec.UNCONSTRAINED`), or the
            spec leaves arrays unreduced.
    """
    if not isinstance(spec, Iterable) or getattr(spec, "unreduced", None):
        raise LayoutError(
            "A PartitionSpec here must hold an entry for each dim and must not be unreduced; got "
            f"{spec!r}. Name the mesh axes that split each dim, as in PartitionSpec('data')."
        )
    entries: list[PartitionEntry] = []
    for entry in spec:
        if entry is None or isinstance(entry, str):
            entries.append(entry)
        elif isinstance(entry, tuple | list) and all(isinstance(axis, str) for axis in entry):
            entries.append(tuple(entry))
        else:
            raise LayoutError(
                "The entries of a PartitionSpec are None, an axis or a tuple of axes; got "
                f"{entry!r} in {spec}. Name the mesh axes that split each dim."
            )
    return tuple(entries)


def check_entries(
    spec: PartitionEntries, mesh_shape: tuple[tuple[str, int], ...], owner: str
) -> None:
    """Check that a partition spec fits the mesh.

    Args:
        spec: The partition spec.
        mesh_shape: (axis, size) pairs in mesh order.
        owner: The argument that holds it, for the message.

    Raises:
        LayoutError: It names an axis that the mesh lacks, or one axis twice.
    """
    known = [name for name, _ in mesh_shape]
    axes = [axis for entry in spec for axis in entry_axes(entry)]
    for axis in axes:
        if axis not in known:
            raise LayoutError(
                f"A PartitionSpec names axes of its mesh; {owner} names {axis!r} in "
                f"{partition_text(spec)}, the mesh is {mesh_text(mesh_shape)}. "
                f"{nearest_hint(axis, known)}"
            )
        if axes.count(axis) > 1:
            raise LayoutError(
                f"A PartitionSpec names each mesh axis once; {owner} names {axis!r} twice in "
                f"{partition_text(spec)}. Drop one of them."
            )


def entry_axes(entry: PartitionEntry) -> tuple[str, ...]:
    """Return the axes that an entry names."""
    if entry is None:
        return ()
    return (entry,) if isinstance(entry, str) else entry


def dim0_axes(spec: PartitionEntries) -> tuple[str, ...]:
    """Return the axes that split dim 0."""
    return entry_axes(spec[0]) if spec else ()


def mesh_text(mesh_shape: tuple[tuple[str, int], ...]) -> str:
    """Return the axes and sizes of a mesh for a message.

    Example:
        >>> mesh_text((("data", 4), ("model", 2)))
        'data=4 × model=2'
    """
    return " × ".join(f"{name}={size}" for name, size in mesh_shape) or "without axes"


def partition_text(spec: PartitionEntries) -> str:
    """Return a partition spec as a program writes it.

    Example:
        >>> partition_text((("host", "device"), None))
        "P(('host', 'device'), None)"
    """
    return f"P({', '.join(repr(entry) for entry in spec)})"

# SPDX-License-Identifier: Apache-2.0
"""Specs of shardings as plain values: which mesh axes split each dim."""

from collections.abc import Iterable

from tfjax_batches.errors import LayoutError, nearest_hint

SpecEntry = None | str | tuple[str, ...]
Spec = tuple[SpecEntry, ...]


def to_spec(spec: Iterable[SpecEntry]) -> Spec:
    """Return the entries of a `PartitionSpec` as plain tuples, strings and None.

    Raises:
        LayoutError: An entry is none of these (`PartitionSpec.UNCONSTRAINED`, say), or the spec
            leaves arrays unreduced.
    """
    if not isinstance(spec, Iterable) or getattr(spec, "unreduced", None):
        raise LayoutError(
            f"A spec holds an entry for each dim, and no sums still to come; got {spec!r}. "
            "Name the mesh axes that split each dim, as in PartitionSpec('data')."
        )
    entries: list[SpecEntry] = []
    for entry in spec:
        if entry is None or isinstance(entry, str):
            entries.append(entry)
        elif isinstance(entry, tuple | list) and all(isinstance(axis, str) for axis in entry):
            entries.append(tuple(entry))
        else:
            raise LayoutError(
                f"A spec's entries are None, an axis or a tuple of axes; got {entry!r} in {spec}. "
                "Name the mesh axes that split each dim."
            )
    return tuple(entries)


def check_spec(spec: Spec, mesh_shape: tuple[tuple[str, int], ...], owner: str) -> None:
    """Raise LayoutError when `spec`, of the argument `owner`, does not fit the mesh."""
    known = [name for name, _ in mesh_shape]
    axes = [axis for entry in spec for axis in entry_axes(entry)]
    for axis in axes:
        if axis not in known:
            raise LayoutError(
                f"A spec names axes of its mesh; {owner} names {axis!r} in {spec_text(spec)}, "
                f"the mesh is {mesh_text(mesh_shape)}. {nearest_hint(axis, known)}"
            )
        if axes.count(axis) > 1:
            raise LayoutError(
                f"A spec names each mesh axis once; {owner} names {axis!r} twice in "
                f"{spec_text(spec)}. Drop one of them."
            )


def entry_axes(entry: SpecEntry) -> tuple[str, ...]:
    """Return the axes that an entry of a spec names."""
    if entry is None:
        return ()
    return (entry,) if isinstance(entry, str) else entry


def dim0_axes(spec: Spec) -> tuple[str, ...]:
    """Return the axes that split dim 0."""
    return entry_axes(spec[0]) if spec else ()


def mesh_text(mesh_shape: tuple[tuple[str, int], ...]) -> str:
    """Return axes and sizes.

    Example:
        >>> mesh_text((("data", 4), ("model", 2)))
        'data=4 × model=2'
    """
    return " × ".join(f"{name}={size}" for name, size in mesh_shape) or "of no axes"


def spec_text(spec: Spec) -> str:
    """Return a spec as it is written in a program.

    Example:
        >>> spec_text((("host", "device"), None))
        "P(('host', 'device'), None)"
    """
    return f"P({', '.join(repr(entry) for entry in spec)})"

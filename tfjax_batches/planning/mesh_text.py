# SPDX-License-Identifier: Apache-2.0
"""Mesh shapes and partition specs as flags and commands write them."""

import math

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.partition_spec import PartitionEntries


def parse_mesh_shape(text: str, num_devices: int | None = None) -> dict[str, int]:
    """Return axis → size, in order, from a text such as `"data=4,model=2"`.

    Args:
        text: Axes and sizes. One size may be -1, which stands for the devices that are left.
        num_devices: Devices that the mesh must hold. None: any number, and no size may be -1.

    Raises:
        LayoutError: The text is malformed, or the mesh does not hold `num_devices`.

    Example:
        >>> parse_mesh_shape("data=-1, model=2", num_devices=8)
        {'data': 4, 'model': 2}
    """
    shape = parse_axes(text)
    open_axes = [name for name, size in shape.items() if size == -1]
    if open_axes and num_devices is None:
        raise LayoutError(
            "A size may be -1 if the number of devices is known; got "
            f"{text!r}. Give the size of {open_axes[0]}."
        )
    if open_axes and num_devices is not None:
        others = -math.prod(shape.values())
        shape[open_axes[0]] = max(1, num_devices // others)
    if num_devices is not None and math.prod(shape.values()) != num_devices:
        raise LayoutError(
            f"A mesh holds all devices; {text!r} holds {math.prod(shape.values())} of "
            f"{num_devices}. Change its sizes, or give one as -1."
        )
    return shape


def parse_axes(text: str) -> dict[str, int]:
    """Return axis → size as written; one size may be -1.

    Args:
        text: Axes and sizes, such as `"data=-1,model=2"`.

    Raises:
        LayoutError: The text is malformed, or more than one size is -1.
    """
    shape: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = (piece.strip() for piece in part.partition("="))
        if not (name.isidentifier() and equals and _is_size(size)) or name in shape:
            raise LayoutError(
                "A mesh is written as distinct axes with sizes, such as data=4,model=2; got "
                f"{text!r}, which is wrong at {part.strip()!r}. Correct it."
            )
        shape[name] = int(size)
    if list(shape.values()).count(-1) > 1:
        raise LayoutError(
            f"One axis of a mesh may have the size -1; got {text!r}. Give the sizes of the others."
        )
    return shape


def parse_partition_spec(text: str) -> PartitionEntries:
    """Return the entries of a partition spec such as `"data"`, `"host+device,seq"` or `"-,model"`.

    Commas separate dims, and `+` joins the axes of one dim; `-` or nothing stands for a dim that is
    not split.

    Raises:
        LayoutError: The text is malformed.

    Example:
        >>> parse_partition_spec("host+device,-,seq")
        (('host', 'device'), None, 'seq')
    """
    if not text.strip():
        return ()
    entries: list[str | tuple[str, ...] | None] = []
    for part in text.split(","):
        axes = tuple(axis.strip() for axis in part.split("+"))
        if axes in (("-",), ("",)):
            entries.append(None)
        elif all(axis.isidentifier() for axis in axes):
            entries.append(axes[0] if len(axes) == 1 else axes)
        else:
            raise LayoutError(
                "A partition spec is written as the axes of each dim, such as host+device,-,seq; "
                f"got {text!r}, which is wrong at {part.strip()!r}. Correct it."
            )
    return tuple(entries)


def _is_size(text: str) -> bool:
    return text == "-1" or (text.isdecimal() and int(text) > 0)

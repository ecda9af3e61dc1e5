# SPDX-License-Identifier: Apache-2.0
"""Mesh shapes and partition specs as flags and commands write them."""

import math
import re

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.partition_spec import PartitionEntries, PartitionEntry


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
    shape: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = (piece.strip() for piece in part.partition("="))
        if not name.isidentifier() or name in shape or not re.fullmatch("-1|[1-9][0-9]*", size):
            raise LayoutError(
                "A mesh is written as distinct axes with sizes, such as data=4,model=2; got "
                f"{text!r}, which is wrong at {part.strip()!r}. Correct it."
            )
        shape[name] = int(size)
    open_axes = [name for name, size in shape.items() if size == -1]
    if len(open_axes) == 1 and num_devices is not None:
        shape[open_axes[0]] = num_devices // -math.prod(shape.values())
    if -1 in shape.values() or num_devices not in (None, math.prod(shape.values())):
        raise LayoutError(
            "The sizes of a mesh multiply to its devices, and one of them may be -1; got "
            f"{text!r} with num_devices={num_devices}. Change the sizes, or give one as -1."
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
    entries: list[PartitionEntry] = []
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

# SPDX-License-Identifier: Apache-2.0
"""`describe`: the arrays of a batch, for people."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfjax_batches.errors import ConfigError
from tfjax_batches.features.paths import HOST, Path, flatten, path_text
from tfjax_batches.placing.array_shards import bytes_of, local_bytes
from tfjax_batches.planning.partition_spec import partition_text
from tfjax_batches.text.description import Description, Table
from tfjax_batches.text.formatting import bytes_text, count_text


def describe(batch: Mapping[str, Any]) -> Description:
    """Return what a batch holds: shape, dtype, sharding and bytes of each array.

    No value is read, and no other process takes part. Donated arrays are described too.

    Args:
        batch: Nested dict of arrays, of JAX or NumPy.

    Returns:
        A table with a line for each array: `print` it, or evaluate it in a notebook.

    Raises:
        ConfigError: `batch` is not a nested dict of arrays.

    Example:
        >>> print(describe({"tokens": np.zeros((4, 8), np.int32)}))
        A batch of 4 rows
          feature  array        sharding  bytes  local bytes
          tokens   int32[4, 8]            128 B        128 B
    """
    arrays = batch_arrays(batch)
    rows = {array.shape[0] for path, array in arrays.items() if array.shape and not on_host(path)}
    title = f"A batch of {count_text(rows.pop(), 'row')}" if len(rows) == 1 else "A batch"
    lines = (
        (
            path_text(path),
            array_text(array.dtype, array.shape),
            sharding_text(array),
            *_bytes_texts(array),
        )
        for path, array in arrays.items()
    )
    header = ("feature", "array", "sharding", "bytes", "local bytes")
    return Description(title, (Table(tuple(lines), header),))


def batch_arrays(batch: Mapping[str, Any]) -> dict[Path, Any]:
    """Return the arrays of a batch by path, sorted.

    Raises:
        ConfigError: `batch` is not a nested dict of arrays.
    """
    rule = "A batch is a nested dict of arrays"
    fix = "Pass a batch of the iterator; loaders and layouts have a describe() of their own."
    if not isinstance(batch, Mapping):
        raise ConfigError(f"{rule}; got a {type(batch).__name__}. {fix}")
    arrays = flatten(batch)
    for path, array in arrays.items():
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            raise ConfigError(f"{rule}; {path_text(path)!r} is a {type(array).__name__}. {fix}")
    return arrays


def on_host(path: Path) -> bool:
    """Return whether a path is that of a feature that stays on the host."""
    return path[0] == HOST


def array_text(dtype: Any, shape: tuple[int, ...]) -> str:
    """Return dtype and shape, as in `float32[64, 3]`."""
    return f"{np.dtype(dtype).name}{list(shape)}"


def sharding_text(array: Any) -> str:
    """Return the partition spec of an array, or of its struct; empty for NumPy."""
    spec = getattr(getattr(array, "sharding", None), "spec", None)
    return "" if spec is None else partition_text(tuple(spec))


def _bytes_texts(array: Any) -> tuple[str, str]:
    if array.dtype == object:  # its items are pointers; what they point to is not counted
        return "varies", "varies"
    whole = bytes_of(array.dtype, array.shape)
    local = local_bytes(array) if hasattr(array, "sharding") else whole
    return bytes_text(whole), bytes_text(local)

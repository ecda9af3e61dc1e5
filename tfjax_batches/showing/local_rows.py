# SPDX-License-Identifier: Apache-2.0
"""The rows of a global array that lie on this process, as NumPy."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from tfjax_batches.planning.order import Int64Array


def read_local_rows(array: Any) -> tuple[Int64Array, npt.NDArray[np.generic]]:
    """Return the rows that this process holds whole, and their values; no other is asked.

    Args:
        array: `jax.Array` [rows, ...], or a NumPy array.

    Returns:
        int64[n], rising, and [n, ...]. A row of which another process has a part is left out.
    """
    if not isinstance(array, jax.Array):
        return np.arange(len(array)), np.asarray(array)
    if array.is_fully_addressable:
        return np.arange(len(array)), jax.device_get(array)
    shards = [(shard.index, shard.data) for shard in array.addressable_shards]
    return join_pieces(array.shape, array.dtype, shards)


def join_pieces(
    shape: tuple[int, ...], dtype: np.dtype, pieces: Iterable[tuple[tuple[slice, ...], Any]]
) -> tuple[Int64Array, npt.NDArray[np.generic]]:
    """Return the rows that some pieces of an array make up whole, int64[n], and their values.

    Args:
        shape: Of the array.
        dtype: Of the array.
        pieces: Index in the array, and values there; replicas may come more than once.
    """
    by_span = {
        tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True)): values
        for index, values in pieces
    }
    rows = np.unique([row for span in by_span for row in range(*span[0])]).astype(np.int64)
    joined = np.zeros((len(rows), *shape[1:]), dtype)
    is_here = np.zeros(joined.shape, bool)
    for (rows_held, *others), values in by_span.items():
        first, stop = np.searchsorted(rows, rows_held)
        place = (slice(first, stop), *(slice(*span) for span in others))
        joined[place] = jax.device_get(values)
        is_here[place] = True
    whole = is_here.all(axis=tuple(range(1, len(shape))))
    return rows[whole], joined[whole]

# SPDX-License-Identifier: Apache-2.0
"""The rows of a global array that lie on this process, as NumPy."""

from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from tfjax_batches.placing.array_shards import span_of
from tfjax_batches.planning.order import Int64Array


def read_local_rows(array: Any) -> tuple[Int64Array, npt.NDArray[np.generic]]:
    """Return the rows of an array that this process holds, int64[n], rising, and their values.

    No other process takes part. Both are empty for an array of several processes whose devices hold
    only parts of rows.
    """
    if not isinstance(array, jax.Array) or array.is_fully_addressable:
        return np.arange(len(array)), np.asarray(jax.device_get(array))
    whole_row = [(0, size) for size in array.shape[1:]]
    found: dict[tuple[int, int], Any] = {}  # replicas come more than once
    for shard in array.addressable_shards:
        span, *others = span_of(shard.index, array.shape)
        if others == whole_row:
            found[span] = shard.data
    if not found:
        return np.arange(0), np.zeros((0, *array.shape[1:]), array.dtype)
    spans = sorted(found)
    rows = np.concatenate([np.arange(*span) for span in spans])
    return rows, np.concatenate([jax.device_get(found[span]) for span in spans])

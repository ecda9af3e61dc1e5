# SPDX-License-Identifier: Apache-2.0
"""Shards of global arrays: the slice that each device holds, and its bytes."""

import math
from typing import Any

import jax

Span = tuple[tuple[int, int], ...]
"""(start, stop) in each dim. Unlike slices, it is hashable before Python 3.12."""


def span_of(index: tuple[slice, ...] | None, shape: tuple[int, ...]) -> Span:
    """Return a slice of a global array, as `jax.Shard.index` has it, as integers."""
    assert index is not None  # devices of other processes have None
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))


def bytes_of(dtype: Any, shape: tuple[int, ...]) -> int:
    """Return the bytes of an array."""
    return int(math.prod(shape) * dtype.itemsize)


def shard_bytes(array: jax.Array | jax.ShapeDtypeStruct) -> int:
    """Return the bytes of an array on each of its devices; it may have been donated."""
    assert array.sharding is not None
    return bytes_of(array.dtype, array.sharding.shard_shape(array.shape))


def local_bytes(array: jax.Array) -> int:
    """Return the bytes of an array on the devices of this process, replicas counted."""
    return shard_bytes(array) * len(array.sharding.addressable_devices)

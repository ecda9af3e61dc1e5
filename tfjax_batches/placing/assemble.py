# SPDX-License-Identifier: Apache-2.0
"""From process-local host arrays to global `jax.Array`s, without talking to other processes."""

from collections.abc import Mapping

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import AbstractMesh, NamedSharding

from tfjax_batches.errors import FeatureError, LayoutError
from tfjax_batches.planning.order import Int64Array

HostBatch = Mapping[str, npt.NDArray[np.generic]]
DeviceBatch = dict[str, jax.Array]

_Index = tuple[slice, ...]


class Assembler:
    """Places host batches on this process's devices and makes global arrays of them.

    Which slice of the host array each device gets is worked out once, here.

    Args:
        specs: Global shape, dtype and `NamedSharding` of each entry, by path.
        rows: int64[process_batch], the rows of the host batch, rising; they cover the dim-0
            slice of each local device in each sharding.

    Raises:
        LayoutError: A sharding is on an `AbstractMesh`, which has no devices.
    """

    def __init__(self, specs: Mapping[str, jax.ShapeDtypeStruct], rows: Int64Array) -> None:
        self._entries = {path: _Placement(path, spec, rows) for path, spec in specs.items()}

    def __call__(self, host_batch: HostBatch) -> DeviceBatch:
        """Return the global arrays of one step, by path.

        The host arrays must not be written to afterwards: on CPU devices JAX may go on using
        their memory.

        Args:
            host_batch: Arrays [process_batch, ...] by path.

        Raises:
            FeatureError: A value cannot be held in the dtype that the device has for it.
        """
        # This transfer is the purpose of the call: a guard against others does not mean it.
        with jax.transfer_guard_host_to_device("allow"):
            return {path: entry.place(host_batch[path]) for path, entry in self._entries.items()}


class _Placement:
    """How one entry of the batch is placed."""

    def __init__(self, path: str, spec: jax.ShapeDtypeStruct, rows: Int64Array) -> None:
        self._path = path
        self._shape = spec.shape
        self._dtype = np.dtype(spec.dtype)
        sharding = spec.sharding
        assert isinstance(sharding, NamedSharding)
        if isinstance(sharding.mesh, AbstractMesh):
            raise LayoutError(
                "Batches are placed on devices; this loader's mesh has none: it is the "
                f"{dict(sharding.mesh.shape)} of a dry run. Use host_batches(), or tjb.build."
            )
        self._sharding = sharding
        # The device's index in the global array → its index in the host array.
        self._local_index = {
            _key(index): (_local_rows(index[0], spec.shape[0], rows), *index[1:])
            for index in sharding.addressable_devices_indices_map(spec.shape).values()
            if index is not None
        }

    def place(self, values: npt.NDArray[np.generic]) -> jax.Array:
        values = to_device_dtype(self._path, values, self._dtype)
        return jax.make_array_from_callback(
            self._shape, self._sharding, lambda index: values[self._local_index[_key(index)]]
        )


def device_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype that a device holds `dtype` in: 32 bits of 64 unless x64 is on."""
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def to_device_dtype(
    path: str, values: npt.NDArray[np.generic], dtype: np.dtype
) -> npt.NDArray[np.generic]:
    """Return `values` in `dtype`, where that changes no value.

    Raises:
        FeatureError: A value would change; names feature, value and the ways out.
    """
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore"):  # found below, and told better
        narrow = values.astype(dtype)
    changed = narrow != values  # in the wider of the two dtypes, so that nothing is lost here
    if np.issubdtype(values.dtype, np.inexact):
        changed &= ~np.isnan(values)
    if changed.any():
        raise FeatureError(
            f"A value reaches the device unchanged; feature {path!r} is {values.dtype} and "
            f"{values[changed].flat[0]} is not a value of {dtype}, which JAX has in its place. "
            "Turn on jax_enable_x64, or leave the feature out with features=(…)."
        )
    return narrow


def _key(index: _Index | None) -> tuple[tuple[int | None, int | None], ...]:
    assert index is not None  # None stands for devices of other processes
    # Slices are not hashable before Python 3.12.
    return tuple((part.start, part.stop) for part in index)


def _local_rows(rows_of_device: slice, global_batch_size: int, rows: Int64Array) -> slice:
    """Return where a device's run of rows stands in the host batch."""
    start, stop, _ = rows_of_device.indices(global_batch_size)
    first = int(np.searchsorted(rows, start))
    return slice(first, first + stop - start)

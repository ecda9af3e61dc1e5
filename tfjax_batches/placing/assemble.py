# SPDX-License-Identifier: Apache-2.0
"""Process-local host arrays become global `jax.Array`s, without talking to other processes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import AbstractMesh, NamedSharding

from tfjax_batches.errors import FeatureError, LayoutError
from tfjax_batches.features.paths import ID, Path, path_text
from tfjax_batches.placing.array_shards import Span, span_of
from tfjax_batches.planning.order import Int64Array

if TYPE_CHECKING:  # placing loads no TensorFlow
    from tfjax_batches.pipeline.host_batches import HostBatch

DeviceBatch = dict[Path, jax.Array]


class Assembler:
    """Places host batches on this process's devices and makes global arrays of them.

    The result depends on the host batch alone: not on the thread, nor on the JAX contexts that are
    open there, nor on later writes to the host arrays.

    Args:
        specs: Global shape, dtype and `NamedSharding` of each entry, by path.
        rows: int64[process_batch], the rows of the host batch, rising. They must cover the dim-0
            slice of each local device in each sharding.

    Raises:
        LayoutError: A sharding is on an `AbstractMesh`, which has no devices.
    """

    def __init__(self, specs: Mapping[Path, jax.ShapeDtypeStruct], rows: Int64Array) -> None:
        self._entries = {path: _Placement(path, spec, rows) for path, spec in specs.items()}

    def __call__(self, host_batch: "HostBatch") -> DeviceBatch:
        """Return the global arrays of one step, by path.

        Raises:
            FeatureError: A value does not fit the dtype that it has on the device.
        """
        # The dtypes on the device were decided when the loader was built, and a transfer guard is
        # meant for accidental transfers. Both are settings of a thread.
        with jax.enable_x64(True), jax.transfer_guard_host_to_device("allow"):
            return {path: entry.place(host_batch[path]) for path, entry in self._entries.items()}


class _Placement:
    """Places one entry of the batch. The slice that each device gets is computed once, here."""

    def __init__(self, path: Path, spec: jax.ShapeDtypeStruct, rows: Int64Array) -> None:
        self._path = path
        self._shape = spec.shape
        self._dtype = np.dtype(spec.dtype)
        sharding = spec.sharding
        assert isinstance(sharding, NamedSharding)
        if isinstance(sharding.mesh, AbstractMesh):
            raise LayoutError(
                "Batches are placed on devices; the mesh of this loader, "
                f"{dict(sharding.mesh.shape)}, has none, since it is that of a dry run. Use "
                "host_batches(), or tjb.build."
            )
        self._sharding = sharding
        self._local_index: dict[Span, tuple[slice, ...]] = {}
        for index in sharding.addressable_devices_indices_map(spec.shape).values():
            span = span_of(index, spec.shape)
            (start, stop), *others = span
            first = int(np.searchsorted(rows, start))
            local_rows = slice(first, first + stop - start)
            self._local_index[span] = (local_rows, *(slice(*part) for part in others))

    def place(self, values: npt.NDArray[np.generic]) -> jax.Array:
        values = to_device_dtype(self._path, _owned(values), self._dtype)
        return jax.make_array_from_callback(
            self._shape,
            self._sharding,
            lambda index: values[self._local_index[span_of(index, self._shape)]],
        )


def device_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype on the device: 32 bits instead of 64, unless `jax_enable_x64` is on."""
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def to_device_dtype(
    path: Path, values: npt.NDArray[np.generic], dtype: np.dtype
) -> npt.NDArray[np.generic]:
    """Return `values` in `dtype`; raise FeatureError if that changes a value."""
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore"):  # reported below
        narrow = values.astype(dtype)
    changed = narrow != values  # compared in the wider of the two dtypes, which loses nothing
    if np.issubdtype(values.dtype, np.inexact):
        changed &= ~np.isnan(values)
    if changed.any():
        fix = "use with_ids=False"
        name = path_text(path)
        if path != (ID,):
            fix = (
                f"cast it, with cast('float32', {name!r}) or in the transform that makes it; or "
                f"leave it on the host, with keep_on_host=({name!r},)"
            )
        raise FeatureError(
            f"A value reaches the device unchanged; feature {name!r} is {values.dtype} and "
            f"{values[changed].flat[0]} is not a value of {dtype}, which JAX uses for it. "
            f"Turn on jax_enable_x64; or {fix}."
        )
    return narrow


def _owned(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return an array that nobody can write to: on CPU devices JAX may keep using its memory."""
    part: object = values
    while isinstance(part, np.ndarray):
        if part.flags.writeable:
            return values.copy()
        part = part.base
    return values

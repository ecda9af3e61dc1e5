# SPDX-License-Identifier: Apache-2.0
"""Which rows of the global batch each process must hold.

Owns the one rule: the rows of a process are the union of the dim-0 slices of its devices, over all
shardings in use. No share is ever computed from a process index, so replicas, permuted devices,
host tiles and uneven ownership need no case of their own. Knows a mesh as a shape and the owner of
each device; a JAX sharding is turned into these integers at the edge, in `from_sharding`.
"""

import dataclasses
import functools
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.partition_spec import (
    Spec,
    SpecEntry,
    check_spec,
    dim0_axes,
    mesh_text,
    spec_text,
    to_spec,
)
from tfjax_batches.text.description import Description, Table, facts
from tfjax_batches.text.formatting import count_text, runs_text

if TYPE_CHECKING:
    import jax

_GROUPS_SHOWN = 8
_MOST_DEVICES = 2**24


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchLayout:
    """The rows of every process, as a value made of integers.

    Make one with `from_sharding` or `simulate`.

    Attributes:
        mesh_shape: (axis, size) pairs in mesh order.
        process_of_device: Process index of each device, in row-major mesh order.
        spec: Mesh axes of each dim of a feature; entry 0 names the data axes.
        feature_specs: (feature, spec) pairs of features with a spec of their own.
        global_batch_size: Rows of the global batch.

    Raises:
        LayoutError: A spec names an axis that the mesh lacks or names one twice, or the data
            axes do not divide the batch.

    Example:
        >>> layout = BatchLayout.simulate({"data": 2, "model": 2}, "data", 8, 4)
        >>> layout.replica_groups
        ((0, 1), (2, 3))
        >>> layout.rows(3).tolist()
        [4, 5, 6, 7]
    """

    mesh_shape: tuple[tuple[str, int], ...]
    process_of_device: tuple[int, ...]
    spec: Spec
    feature_specs: tuple[tuple[str, Spec], ...] = ()
    global_batch_size: int

    def __post_init__(self) -> None:
        if not _is_int(self.global_batch_size) or not 0 < self.global_batch_size < 2**31:
            raise LayoutError(
                "global_batch_size must be an integer from 1 and below 2**31; got "
                f"{self.global_batch_size!r}. Give the rows of one step over all processes."
            )
        check_spec(self.spec, self.mesh_shape, "sharding")
        self._check_divides(self.spec, "sharding")
        for feature, spec in self.feature_specs:
            check_spec(spec, self.mesh_shape, f"feature_shardings[{feature!r}]")
            self._check_divides(spec, f"feature_shardings[{feature!r}]")

    @classmethod
    def from_sharding(
        cls,
        sharding: "jax.sharding.NamedSharding",
        global_batch_size: int,
        feature_shardings: "Mapping[str, jax.sharding.NamedSharding] | None" = None,
    ) -> "BatchLayout":
        """Return the layout of batches placed by `sharding`.

        Args:
            sharding: Spec and mesh of every feature; its first spec entry names the data axes.
            global_batch_size: Rows of the global batch.
            feature_shardings: Shardings on the same mesh, by feature, in place of `sharding`.

        Raises:
            LayoutError: As for the class, or two meshes in one call.
        """
        _check_sharding("sharding", sharding)
        if not isinstance(feature_shardings or {}, Mapping):
            raise LayoutError(
                "feature_shardings maps features to NamedShardings; got "
                f"{type(feature_shardings).__name__}. "
                "Write {'tokens': NamedSharding(mesh, spec)}."
            )
        own = dict(feature_shardings or {})
        for feature, other in own.items():
            _check_sharding(f"feature_shardings[{feature!r}]", other)
            if other.mesh != sharding.mesh:
                raise LayoutError(
                    "All shardings of a batch are on one mesh; "
                    f"feature_shardings[{feature!r}] is on {other.mesh}, sharding on "
                    f"{sharding.mesh}. Make both from the same Mesh."
                )
        return cls(
            mesh_shape=tuple(sharding.mesh.shape.items()),
            process_of_device=tuple(d.process_index for d in sharding.mesh.devices.flat),
            spec=to_spec(sharding.spec),
            feature_specs=tuple((name, to_spec(own[name].spec)) for name in sorted(own)),
            global_batch_size=global_batch_size,
        )

    @classmethod
    def simulate(
        cls,
        mesh_shape: Mapping[str, int],
        spec: str | Iterable[SpecEntry],
        global_batch_size: int,
        process_of_device: int | npt.ArrayLike,
    ) -> "BatchLayout":
        """Return the layout on machines that one does not have.

        Args:
            mesh_shape: Axis name to size, in mesh order.
            spec: A `PartitionSpec`, its entries, or the name of the one data axis.
            global_batch_size: Rows of the global batch.
            process_of_device: Process index of each device, an int array of the mesh's shape; or
                the number of processes, which then own equal runs of devices in row-major order.

        Raises:
            LayoutError: As for the class, or devices that the mesh or the processes don't fit.
        """
        if not isinstance(mesh_shape, Mapping) or not all(
            isinstance(name, str) and _is_int(size) and size >= 1
            for name, size in mesh_shape.items()
        ):
            raise LayoutError(
                "mesh_shape maps axis names to integer sizes of at least 1; got "
                f"{mesh_shape!r}. Write {{'data': 4, 'model': 2}}."
            )
        shape = tuple(mesh_shape.values())
        devices = math.prod(shape)
        if devices > _MOST_DEVICES:
            raise LayoutError(
                f"A mesh of up to {_MOST_DEVICES:,} devices can be simulated; got {devices:,} in "
                f"{mesh_text(tuple(mesh_shape.items()))}. Make it smaller."
            )
        owners = np.asarray(process_of_device)
        if owners.ndim == 0 and _is_int(process_of_device):
            if owners < 1 or devices % int(owners):
                raise LayoutError(
                    f"Processes own equal numbers of devices; {int(owners)} processes cannot "
                    f"share the {devices} devices of mesh {mesh_text(tuple(mesh_shape.items()))}. "
                    "Give process_of_device as an array of the mesh's shape."
                )
            owners = np.repeat(np.arange(int(owners)), devices // int(owners)).reshape(shape)
        if owners.shape != shape or owners.dtype.kind not in "iu" or owners.min() < 0:
            raise LayoutError(
                "process_of_device holds a process index >= 0 for each device of mesh "
                f"{mesh_text(tuple(mesh_shape.items()))}; got {owners.dtype}{list(owners.shape)}. "
                "Give an int array of the mesh's shape."
            )
        return cls(
            mesh_shape=tuple(mesh_shape.items()),
            process_of_device=tuple(owners.ravel().tolist()),
            spec=to_spec((spec,) if isinstance(spec, str) else spec),
            global_batch_size=global_batch_size,
        )

    @functools.cached_property
    def process_count(self) -> int:
        """One more than the highest process index that owns a device."""
        return max(self.process_of_device) + 1

    @property
    def data_axes(self) -> tuple[str, ...]:
        """Mesh axes that split dim 0 of features without a spec of their own."""
        return dim0_axes(self.spec)

    def rows(self, process_index: int) -> Int64Array:
        """Return the distinct rows that a process holds, int64[process_batch], rising.

        Empty for a process that owns no device of the mesh.

        Raises:
            IndexError: There is no such process.
        """
        chunks = self._chunks(process_index)  # [n]
        size = self.global_batch_size // self._chunk_count
        return (chunks[:, np.newaxis] * size + np.arange(size)).ravel()

    def process_batch_size(self, process_index: int) -> int:
        """Return the number of rows that a process holds."""
        return len(self._chunks(process_index)) * self.global_batch_size // self._chunk_count

    def device_rows(self) -> Int64Array:
        """Return the first row and the one after the last of each device, int64[devices, 2].

        Devices are in row-major mesh order; features with a spec of their own are left out.
        """
        size = self.global_batch_size // self._split_of(self.data_axes)
        starts = self._slice_of_device(self.data_axes) * size
        return np.stack([starts, starts + size], axis=1)

    @functools.cached_property
    def replica_groups(self) -> tuple[tuple[int, ...], ...]:
        """Processes that hold equal rows, in order of their first row."""
        groups: dict[tuple[int, bytes], list[int]] = {}
        for process_index in sorted(set(self.process_of_device)):
            chunks = self._chunks(process_index)
            key = (int(chunks[0]), chunks.tobytes())
            groups.setdefault(key, []).append(process_index)
        # Groups that start with one row stand in order of their first process.
        ordered = sorted(groups.items(), key=lambda item: (item[0][0], item[1][0]))
        return tuple(tuple(processes) for _, processes in ordered)

    def describe(self) -> Description:
        """Return mesh, spec, processes and their rows, for people: `print` it, or look at it."""
        groups = self.replica_groups
        processes, devices = len(set(self.process_of_device)), len(self.process_of_device)
        reads = sum(self.process_batch_size(p) for group in groups for p in group)
        more = len(groups) - _GROUPS_SHOWN
        table = Table(
            header=("processes", "rows", "count"),
            rows=tuple(
                (
                    runs_text(np.array(group)),
                    runs_text(self.rows(group[0])),
                    f"{self.process_batch_size(group[0]):,}",
                )
                for group in groups[:_GROUPS_SHOWN]
            ),
            footer=f"… and {count_text(more, 'more group')}" if more > 0 else "",
        )
        own_specs = "; ".join(f"{feature}: {spec_text(s)}" for feature, s in self.feature_specs)
        summary = facts(
            processes=f"{count_text(processes, 'process', 'processes')} with "
            f"{count_text(devices, 'device')}, in {count_text(len(groups), 'replica group')}",
            reads=f"each row is read {count_text(reads / self.global_batch_size, 'time')}",
            **{"own specs": own_specs},
        )
        title = (
            f"{count_text(self.global_batch_size, 'row')} on mesh {mesh_text(self.mesh_shape)}, "
            f"spec {spec_text(self.spec)}"
        )
        return Description(title, (summary, table))

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    @functools.cached_property
    def _chunk_count(self) -> int:
        """Equal parts of the batch such that every device's slice is made of whole parts."""
        specs = [self.spec, *(spec for _, spec in self.feature_specs)]
        return math.lcm(*(self._split_of(dim0_axes(spec)) for spec in specs))

    def _chunks(self, process_index: int) -> Int64Array:
        """Return the parts of the batch that a process holds, int64[n], rising."""
        if not _is_int(process_index) or not 0 <= process_index < self.process_count:
            raise IndexError(
                f"process_index lies in 0 <= index < {self.process_count}; got {process_index}."
            )
        processes, chunks = self._chunks_by_process
        start, stop = np.searchsorted(processes, [process_index, process_index + 1])
        return chunks[start:stop]

    @functools.cached_property
    def _chunks_by_process(self) -> tuple[Int64Array, Int64Array]:
        """Process and chunk of each part that is held, both int64[n], by process, then chunk."""
        owners = np.array(self.process_of_device, np.int64)  # [devices]
        keys = []  # process * chunk_count + chunk
        for axes in {dim0_axes(spec) for spec in (self.spec, *dict(self.feature_specs).values())}:
            split = self._split_of(axes)
            per_slice = self._chunk_count // split
            held = np.unique(owners * split + self._slice_of_device(axes))
            processes, slices = np.divmod(held, split)  # [n], [n]
            chunks = slices[:, np.newaxis] * per_slice + np.arange(per_slice)  # [n, per_slice]
            keys.append((processes[:, np.newaxis] * self._chunk_count + chunks).ravel())
        processes, chunks = np.divmod(np.unique(np.concatenate(keys)), self._chunk_count)
        return processes, chunks

    def _slice_of_device(self, axes: tuple[str, ...]) -> Int64Array:
        """Return which of the equal dim-0 slices each device holds, int64[devices]."""
        sizes = dict(self.mesh_shape)
        names = [name for name, _ in self.mesh_shape]
        index = np.zeros((1,) * len(names), np.int64)
        for axis in axes:  # the first axis named is the slowest
            shape = [sizes[name] if name == axis else 1 for name in names]
            index = index * sizes[axis] + np.arange(sizes[axis]).reshape(shape)
        return np.broadcast_to(index, tuple(sizes.values())).ravel()

    def _split_of(self, axes: tuple[str, ...]) -> int:
        sizes = dict(self.mesh_shape)
        return math.prod(sizes[axis] for axis in axes)

    def _check_divides(self, spec: Spec, owner: str) -> None:
        axes = dim0_axes(spec)
        split = self._split_of(axes)
        if self.global_batch_size % split:
            split_axes = tuple((axis, dict(self.mesh_shape)[axis]) for axis in axes)
            below = self.global_batch_size // split * split
            nearest = f"{below} or {below + split}" if below else f"{split}"
            raise LayoutError(
                f"The data axes divide the batch; {owner} splits dim 0 over "
                f"{mesh_text(split_axes)}, in all {split}, "
                f"and global_batch_size={self.global_batch_size}. "
                f"The nearest valid global_batch_size is {nearest}."
            )


def _check_sharding(owner: str, sharding: object) -> None:
    """Raise LayoutError for what is no NamedSharding on a mesh of devices."""
    mesh = getattr(sharding, "mesh", None)
    try:
        fits = hasattr(sharding, "spec") and hasattr(mesh, "devices")
    except ValueError:  # an AbstractMesh has none
        fits = False
    if not fits:
        raise LayoutError(
            f"A sharding is a NamedSharding on a Mesh of devices; {owner} is "
            f"{sharding!r}. Write NamedSharding(mesh, PartitionSpec('data'))."
        )


def _is_int(value: object) -> TypeGuard[int]:
    # bool is an Integral, and True is no size.
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)

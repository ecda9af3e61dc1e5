# SPDX-License-Identifier: Apache-2.0
"""The rows of the global batch that each process must hold.

Owns the one rule: the rows of a process are the union of the dim-0 slices of its devices, over all
shardings in use. Nothing is computed from a process index, so replicas, permuted devices, 2-D host
tiles and uneven ownership are no special cases. A mesh is a shape and the owner of each device;
`from_sharding` turns a JAX sharding into these integers, and nothing else here knows JAX.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import LayoutError
from tfjax_batches.features.paths import Name, path_text
from tfjax_batches.planning.one_mesh import check_one_mesh
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.partition_spec import (
    PartitionEntries,
    PartitionEntry,
    check_entries,
    dim0_axes,
    mesh_text,
    partition_text,
    to_entries,
)
from tfjax_batches.text.description import Description, Table, facts
from tfjax_batches.text.formatting import count_text, nearest_multiples, runs_text
from tfjax_batches.text.numbers import is_integer

if TYPE_CHECKING:
    import jax

_GROUPS_SHOWN = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchLayout:
    """The rows of every process, as a value that consists of integers.

    `from_sharding` and `simulate` make one.

    Attributes:
        mesh_shape: (axis, size) pairs in mesh order.
        process_of_device: Process index of each device, in row-major mesh order.
        spec: Partition spec: the mesh axes of each dim of a feature. Entry 0 names the data axes.
        feature_specs: (feature, partition spec) pairs of features with a sharding of their own.
        global_batch_size: Rows of the global batch.

    Raises:
        LayoutError: A partition spec names an axis that the mesh lacks or names one twice, or the
            data axes do not divide the batch.

    Example:
        >>> layout = BatchLayout.simulate({"data": 2, "model": 2}, "data", 8, 4)
        >>> layout.replica_groups
        ((0, 1), (2, 3))
        >>> layout.rows(3).tolist()
        [4, 5, 6, 7]
    """

    mesh_shape: tuple[tuple[str, int], ...]
    process_of_device: tuple[int, ...]
    spec: PartitionEntries
    feature_specs: tuple[tuple[Name, PartitionEntries], ...] = ()
    global_batch_size: int

    def __post_init__(self) -> None:
        if not is_integer(self.global_batch_size, 1, 2**31 - 1):
            raise LayoutError(
                "global_batch_size must be an integer of at least 1 and below 2**31; got "
                f"{self.global_batch_size!r}. Give the rows of one step over all processes."
            )
        owned = [(f"feature_shardings[{name!r}]", spec) for name, spec in self.feature_specs]
        for owner, spec in [("sharding", self.spec), *owned]:
            check_entries(spec, self.mesh_shape, owner)
            self._check_divides(spec, owner)

    @classmethod
    def from_sharding(
        cls,
        sharding: "jax.sharding.NamedSharding",
        global_batch_size: int,
        feature_shardings: "Mapping[Any, jax.sharding.NamedSharding] | None" = None,
    ) -> "BatchLayout":
        """Return the layout of batches placed by `sharding`.

        Args:
            sharding: Sharding of every feature.
            global_batch_size: Rows of the global batch.
            feature_shardings: Shardings on the same mesh, by feature, used in place of `sharding`.

        Raises:
            LayoutError: As for the class; or an argument is no sharding on a mesh of devices, or
                the shardings are on different meshes, or an axis of the mesh is Manual.
        """
        if not isinstance(feature_shardings or {}, Mapping):
            raise LayoutError(
                f"feature_shardings maps features to shardings; got {feature_shardings!r}. "
                "Write {'tokens': NamedSharding(mesh, spec)}."
            )
        own = dict(sorted((feature_shardings or {}).items(), key=repr))
        owned = {f"feature_shardings[{name!r}]": each for name, each in own.items()}
        check_one_mesh({"sharding": sharding, **owned})
        return cls(
            mesh_shape=tuple(sharding.mesh.shape.items()),
            process_of_device=tuple(d.process_index for d in sharding.mesh.devices.flat),
            spec=to_entries(sharding.spec),
            feature_specs=tuple((name, to_entries(each.spec)) for name, each in own.items()),
            global_batch_size=global_batch_size,
        )

    @classmethod
    def simulate(
        cls,
        mesh_shape: Mapping[str, int],
        spec: str | Iterable[PartitionEntry],
        global_batch_size: int,
        process_of_device: int | npt.ArrayLike,
    ) -> "BatchLayout":
        """Return the layout on machines that need not exist.

        Args:
            mesh_shape: Axis name → size, in mesh order.
            spec: A `PartitionSpec`, its entries, or the name of the one data axis.
            global_batch_size: Rows of the global batch.
            process_of_device: Process index of each device, an int array of the mesh's shape; or
                the number of processes, which then own equal runs of devices in row-major order.

        Raises:
            LayoutError: As for the class; or `mesh_shape` or `process_of_device` is malformed, or
                they do not fit together.
        """
        is_shape = isinstance(mesh_shape, Mapping)
        if not is_shape or not all(is_integer(size, 1) for size in mesh_shape.values()):
            raise LayoutError(
                "mesh_shape maps axis names to integer sizes of at least 1; got "
                f"{mesh_shape!r}. Write {{'data': 4, 'model': 2}}."
            )
        shape, mesh = tuple(mesh_shape.values()), mesh_text(tuple(mesh_shape.items()))
        owners = np.asarray(process_of_device)
        if owners.ndim == 0 and is_integer(owners.item(), 1):
            devices, processes = math.prod(shape), int(owners)
            if devices % processes:
                raise LayoutError(
                    f"Processes own equal numbers of devices; {processes} processes cannot share "
                    f"the {devices} devices of mesh {mesh}. "
                    "Pass process_of_device as an array of the mesh's shape."
                )
            owners = np.repeat(np.arange(processes), devices // processes).reshape(shape)
        if owners.shape != shape or owners.dtype.kind not in "iu" or owners.min() < 0:
            raise LayoutError(
                f"process_of_device holds a process index >= 0 for each device of mesh {mesh}; got "
                f"{owners.dtype}{list(owners.shape)}. Pass an int array of the mesh's shape."
            )
        return cls(
            mesh_shape=tuple(mesh_shape.items()),
            process_of_device=tuple(owners.ravel().tolist()),
            spec=to_entries((spec,) if isinstance(spec, str) else spec),
            global_batch_size=global_batch_size,
        )

    def resized(self, global_batch_size: int) -> "BatchLayout":
        """Return the layout of batches of another size.

        Args:
            global_batch_size: Rows of the global batch.

        Raises:
            LayoutError: The data axes do not divide the batch.
        """
        return dataclasses.replace(self, global_batch_size=global_batch_size)

    @functools.cached_property
    def process_count(self) -> int:
        """One more than the highest process index that owns a device."""
        return max(self.process_of_device) + 1

    @property
    def data_axes(self) -> tuple[str, ...]:
        """Mesh axes that split dim 0 of features without a sharding of their own."""
        return dim0_axes(self.spec)

    def rows(self, process_index: int) -> Int64Array:
        """Return the distinct rows that a process holds, int64[process_batch], rising.

        Empty for a process that owns no device of the mesh.

        Args:
            process_index: 0 <= process_index < `process_count`.

        Raises:
            IndexError: There is no such process.
        """
        chunks = self._chunks(process_index)  # [n]
        size = self.global_batch_size // self._chunk_count
        return (chunks[:, np.newaxis] * size + np.arange(size)).ravel()

    def process_batch_size(self, process_index: int) -> int:
        """Return the number of rows that a process holds.

        Args:
            process_index: As for `rows`.

        Raises:
            IndexError: There is no such process.
        """
        return len(self._chunks(process_index)) * self.global_batch_size // self._chunk_count

    def device_rows(self) -> Int64Array:
        """Return the first row of each device and the one after its last, int64[devices, 2].

        Devices are in row-major mesh order. Features with a sharding of their own do not count.
        """
        size = self.global_batch_size // self._split_of(self.data_axes)
        starts = self._slice_of_device(self.data_axes) * size
        return np.stack([starts, starts + size], axis=1)

    @functools.cached_property
    def replica_groups(self) -> tuple[tuple[int, ...], ...]:
        """Groups of processes that hold equal rows, in order of their first row."""
        groups: dict[tuple[int, bytes], list[int]] = {}
        for process_index in sorted(set(self.process_of_device)):
            chunks = self._chunks(process_index)
            groups.setdefault((int(chunks[0]), chunks.tobytes()), []).append(process_index)
        # The sort is stable: equal first rows stay in order of their first process.
        return tuple(tuple(groups[key]) for key in sorted(groups, key=lambda key: key[0]))

    def describe(self) -> Description:
        """Return mesh, partition spec, processes and their rows, for people: `print` it."""
        groups, devices = self.replica_groups, len(self.process_of_device)
        processes = [process_index for group in groups for process_index in group]
        reads = sum(map(self.process_batch_size, processes)) / self.global_batch_size
        own = "; ".join(f"{path_text(n)}: {partition_text(s)}" for n, s in self.feature_specs)
        summary = facts(
            processes=f"{count_text(len(processes), 'process', 'processes')} with "
            f"{count_text(devices, 'device')}, in {count_text(len(groups), 'replica group')}",
            reads=f"each row is read {count_text(reads, 'time')}",
            **{"own shardings": own},
        )
        rows = []
        for group in groups[:_GROUPS_SHOWN]:
            held = self.rows(group[0])
            rows.append((runs_text(np.array(group)), runs_text(held), f"{len(held):,}"))
        if len(groups) > _GROUPS_SHOWN:
            rows.append((f"… {len(groups) - _GROUPS_SHOWN} more", "", ""))
        title = (
            f"{count_text(self.global_batch_size, 'row')} on mesh {mesh_text(self.mesh_shape)}, "
            f"partition spec {partition_text(self.spec)}"
        )
        return Description(title, (summary, Table(tuple(rows), ("processes", "rows", "count"))))

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    @functools.cached_property
    def _chunk_count(self) -> int:
        """Number of equal parts of the batch such that every slice of a device is whole parts."""
        return math.lcm(*map(self._split_of, self._all_data_axes))

    @property
    def _all_data_axes(self) -> set[tuple[str, ...]]:
        """The axes that split dim 0, of any feature."""
        return {dim0_axes(spec) for spec in (self.spec, *dict(self.feature_specs).values())}

    def _chunks(self, process_index: int) -> Int64Array:
        """Return the parts of the batch that a process holds, int64[n], rising."""
        if not is_integer(process_index, 0, self.process_count - 1):
            raise IndexError(
                f"process_index lies in 0 <= index < {self.process_count}; got {process_index}."
            )
        processes, chunks = self._chunks_by_process
        start, stop = np.searchsorted(processes, [process_index, process_index + 1])
        return chunks[start:stop]

    @functools.cached_property
    def _chunks_by_process(self) -> tuple[Int64Array, Int64Array]:
        """Process and index of each part held, both int64[n], sorted by process, then part."""
        owners = np.array(self.process_of_device, np.int64)  # [devices]
        keys = []  # process * chunk_count + chunk
        for axes in self._all_data_axes:
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
        places = np.indices(tuple(sizes.values()))  # [axes, *mesh]
        index = np.zeros(places.shape[1:], np.int64)
        for axis in axes:  # the first axis named is the slowest
            index = index * sizes[axis] + places[list(sizes).index(axis)]
        return index.ravel()

    def _split_of(self, axes: tuple[str, ...]) -> int:
        sizes = dict(self.mesh_shape)
        return math.prod(sizes[axis] for axis in axes)

    def _check_divides(self, spec: PartitionEntries, owner: str) -> None:
        axes = dim0_axes(spec)
        split = self._split_of(axes)
        if self.global_batch_size % split:
            split_axes = tuple((axis, dict(self.mesh_shape)[axis]) for axis in axes)
            raise LayoutError(
                f"The data axes divide the batch; {owner} splits dim 0 over "
                f"{mesh_text(split_axes)}, {split} parts in all, and "
                f"global_batch_size={self.global_batch_size}. The nearest valid "
                f"global_batch_size is {nearest_multiples(self.global_batch_size, split)}."
            )

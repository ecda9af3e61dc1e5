# SPDX-License-Identifier: Apache-2.0
"""Finds replicas of a global array that are not equal.

JAX does not check the shards that each process gives it: if two devices should hold the same slice
and do not, its results are silently wrong.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tfjax_batches.errors import AgreementError, ConfigError, ReplicaMismatchError
from tfjax_batches.features.paths import HOST
from tfjax_batches.loading.agreement import gather
from tfjax_batches.placing.array_shards import Span, span_of

_MISMATCHES_SHOWN = 5
_Checksums = Mapping[str, str]  # device id → checksum of what it holds


def check_replicas(tree: Any) -> None:
    """Check that devices which must hold equal slices of an array do.

    It compares 64-bit checksums of their bits; each shard that has a replica is read once. If there
    are several processes, each must call this, in the thread that runs its other collectives.

    Args:
        tree: A pytree of `jax.Array`s, such as a batch or model parameters, of the same structure
            on all processes. The entry `_host` of a batch is skipped: its rows differ by process.

    Raises:
        ReplicaMismatchError: Replicas differ; names leaf, slice, and the devices and processes of
            each value. The same on all processes.
        ConfigError: A leaf is not a `jax.Array`, or was donated.
        AgreementError: The trees have different leaves, or another process failed to read its own.

    Example:
        >>> check_replicas({"image": jax.numpy.zeros((8, 2))})
    """
    if isinstance(tree, Mapping):
        tree = {name: part for name, part in tree.items() if name != HOST}
    arrays: dict[str, jax.Array] = {}
    # One pair a process: leaf path → what array it is, leaf path → _Checksums.
    replies = gather(lambda: _read(tree, arrays))
    _check_alike([kinds for kinds, _ in replies])
    everyone = [checksums for _, checksums in replies]
    mismatches: list[str] = []
    for path, array in arrays.items():
        mismatches += _mismatches(path, array, [each[path] for each in everyone])
    if mismatches:
        listed = mismatches[:_MISMATCHES_SHOWN]
        if len(mismatches) > len(listed):
            listed.append(f"… and {len(mismatches) - len(listed)} more")
        raise ReplicaMismatchError(
            "Devices that hold the same slice of an array hold equal values; these do not:\n  "
            + "\n  ".join(listed)
            + "\nLoad equal rows on these processes; or, if each process loads rows of its own, "
            "name every mesh axis that splits them, as in PartitionSpec(('host', 'device'))."
        )


def _read(tree: Any, arrays: dict[str, jax.Array]) -> tuple[dict[str, str], dict[str, _Checksums]]:
    """Fill `arrays` by leaf path; return their kinds and the checksums of local shards."""
    checksums: dict[str, _Checksums] = {}
    for keys, leaf in jax.tree_util.tree_leaves_with_path(tree):
        path = jax.tree_util.keystr(keys, simple=True, separator="/") or "the array"
        if not isinstance(leaf, jax.Array) or leaf.is_deleted():
            kind = "donated" if isinstance(leaf, jax.Array) else f"a {type(leaf).__name__}"
            raise ConfigError(
                f"check_replicas reads arrays on devices; {path} is {kind}. Leave it out, or pass "
                "arrays before the step that they are donated to."
            )
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        arrays[path] = leaf
        replicated = {device for devices in _replicas(leaf).values() for device in devices}
        checksums[path] = {
            str(shard.device.id): _checksum(shard.data)
            for shard in leaf.addressable_shards
            if shard.device in replicated
        }
    return {path: _kind(array) for path, array in arrays.items()}, checksums


def _kind(array: jax.Array) -> str:
    """Return what must be equal on all processes for their shards to be comparable."""
    text = f"{array.dtype}{list(array.shape)}"
    if jax.process_count() > 1 and array.is_fully_addressable:
        return f"{text} on devices of one process"
    spans = sorted(
        (span, sorted(device.id for device in held)) for span, held in _replicas(array).items()
    )
    where = zlib.crc32(repr(spans).encode())
    return f"{text} by {getattr(array.sharding, 'spec', array.sharding)} (placement {where:08x})"


def _replicas(array: jax.Array) -> dict[Span, list[jax.Device]]:
    """Return the devices, of all processes, that hold each slice that several hold."""
    devices_of: dict[Span, list[jax.Device]] = defaultdict(list)
    for device, index in array.sharding.devices_indices_map(array.shape).items():
        devices_of[span_of(index, array.shape)].append(device)
    return {span: devices for span, devices in devices_of.items() if len(devices) > 1}


def _checksum(shard: jax.Array) -> str:
    # Shape and dtype are equal by the sharding; a scalar has no bytes to view.
    data = np.ascontiguousarray(jax.device_get(shard)).reshape(-1).view(np.uint8)
    # Both run at memory speed; a cryptographic hash takes five times as long.
    return f"{zlib.crc32(data.data):08x}{zlib.adler32(data.data):08x}"


def _check_alike(kinds_by_process: list[Mapping[str, str]]) -> None:
    """Raise AgreementError unless all processes have the same leaves, placed in the same way."""
    first = kinds_by_process[0]
    for index, kinds in enumerate(kinds_by_process):
        differing = [path for path in {**first, **kinds} if first.get(path) != kinds.get(path)]
        if differing:
            listed = "; ".join(
                f"{path}: {first.get(path, 'missing')} on process 0, "
                f"{kinds.get(path, 'missing')} on process {index}"
                for path in sorted(differing)[:_MISMATCHES_SHOWN]
            )
            raise AgreementError(
                "check_replicas takes the same leaves, placed in the same way, on all processes; "
                f"these differ: {listed}. Pass the same tree everywhere."
            )


def _mismatches(path: str, array: jax.Array, checksums: list[_Checksums]) -> Iterator[str]:
    """Yield a line for each slice whose replicas differ."""
    if array.is_fully_addressable:
        # Each process has an array of its own of this name.
        checksums = [checksums[jax.process_index()]]
    known = {device: value for each in checksums for device, value in each.items()}
    for span, devices in _replicas(array).items():
        holders: dict[str, list[jax.Device]] = defaultdict(list)
        for device in devices:
            holders[known[str(device.id)]].append(device)
        if len(holders) > 1:
            values = []
            for number, group in enumerate(holders.values(), 1):
                where = ", ".join(f"device {d.id} of process {d.process_index}" for d in group)
                values.append(f"value {number} on {where}")
            yield f"{path}{_span_text(span, array.shape)}: {'; '.join(values)}"


def _span_text(span: Span, shape: tuple[int, ...]) -> str:
    parts = [
        ":" if part == (0, size) else f"{part[0]}:{part[1]}"
        for part, size in zip(span, shape, strict=True)
    ]
    return f"[{', '.join(parts)}]"

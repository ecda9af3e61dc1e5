# SPDX-License-Identifier: Apache-2.0
"""What a loader will deliver, and what a batch holds, for people."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjax_batches.config.batch_config import BatchConfig
from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.partition_spec import spec_text
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.text.description import Description, Table, facts
from tfjax_batches.text.formatting import bytes_text, count_text

if TYPE_CHECKING:
    from tfjax_batches.loading.loader import BatchLoader


def describe(batch: Mapping[str, Any]) -> Description:
    """Return what a batch holds: shape, dtype, spec and bytes of each array.

    No value is read, and no other process is needed.

    Args:
        batch: Nested dict of arrays, of JAX or NumPy.

    Raises:
        ConfigError: That is no dict of arrays. A loader and a layout describe themselves.

    Example:
        >>> print(describe({"tokens": np.zeros((4, 8), np.int32)}))
        A batch of 4 rows
          feature  array        spec  bytes  of them here
          tokens   int32[4, 8]        128 B         128 B
    """
    arrays = batch_leaves(batch)
    rows = {array.shape[0] for path, array in arrays.items() if array.shape and path[:5] != "_host"}
    title = f"A batch of {count_text(rows.pop(), 'row')}" if len(rows) == 1 else "A batch"
    table = Table(
        header=("feature", "array", "spec", "bytes", "of them here"),
        rows=tuple(
            (
                path,
                array_text(array.dtype, array.shape),
                _spec_of(array),
                *_bytes_texts(array),
            )
            for path, array in arrays.items()
        ),
    )
    return Description(title, (table,))


def batch_leaves(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a batch by path.

    Raises:
        ConfigError: It is no nested dict of arrays.
    """
    rule = "A batch is a nested dict of arrays"
    mend = "Pass what the iterator gave; loaders and layouts have a describe() of their own."
    if not isinstance(batch, Mapping):
        raise ConfigError(f"{rule}; this is a {type(batch).__name__}. {mend}")
    arrays = dict(_leaves(batch))
    for path, array in arrays.items():
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            raise ConfigError(f"{rule}; {path!r} is a {type(array).__name__}. {mend}")
    return arrays


def describe_loader(loader: "BatchLoader") -> Description:
    """Return dataset, order, layout, features and memory of a loader."""
    config, plan, layout = loader.config, loader.plan, loader.layout
    run = facts(
        examples=_examples_text(loader),
        order=_order_text(config),
        steps=_steps_text(plan),
        remainder=_remainder_text(plan),
        transforms="; ".join(loader.transform_names),
    )
    rows = layout.describe()
    return Description(
        f"{loader.fingerprint['dataset']}, split {config.split!r}",
        (
            run,
            Table(rows=(("batch", rows.title), *rows.tables[0].rows)),
            *rows.tables[1:],
            _features_table(loader),
            _memory_facts(loader),
        ),
    )


def _examples_text(loader: "BatchLoader") -> str:
    selection = loader.plan.selection
    return f"{loader.num_examples:,}" if selection is None else selection.describe()


def _order_text(config: BatchConfig) -> str:
    if config.shuffle == "none":
        return "that of the split"
    return f"shuffle={str(config.shuffle)!r}, seed={config.seed}"


def _steps_text(plan: BatchPlan) -> str:
    epochs = "" if plan.num_epochs is None else f" in {count_text(plan.num_epochs, 'epoch')}"
    run = "endless" if plan.num_steps is None else f"{plan.num_steps:,}{epochs}"
    return f"{run}; {plan.steps_per_epoch:,} an epoch"


def _remainder_text(plan: BatchPlan) -> str:
    """Say what becomes of the examples that do not fill a batch."""
    text = plan.remainder.describe(plan.num_examples, plan.global_batch_size)
    at_end = plan.left_out_at_end
    text += f"; {count_text(at_end, 'example')} left out at the end" if at_end else ""
    return f"{str(plan.remainder)!r}: {text}"


def _features_table(loader: "BatchLoader") -> Table:
    on_devices = (
        (
            path,
            array_text(spec.dtype, spec.shape),
            _spec_of(spec),
            _shape_text(spec.sharding.shard_shape(spec.shape)),
            bytes_text(_bytes_of(spec.dtype, spec.shape)),
        )
        for path, spec in loader.device_specs.items()
    )
    on_host = (
        (path, f"{spec.describe()} a row", "on the host", "", _host_bytes_text(loader, path))
        for path, spec in loader.host_specs.items()
    )
    return Table(
        header=("feature", "array", "spec", "on a device", "bytes a step"),
        rows=(*on_devices, *on_host),
    )


def _host_bytes_text(loader: "BatchLoader", path: str) -> str:
    spec = loader.host_specs[path]
    if not spec.is_fixed or spec.is_string:
        return "varies"
    return bytes_text(_bytes_of(spec.dtype, (loader.config.global_batch_size, *spec.fixed_shape)))


def _memory_facts(loader: "BatchLoader") -> Table:
    """Return the bytes that batches take on all devices, on one process and on one device."""
    config, layout, specs = loader.config, loader.layout, loader.device_specs.values()
    process = loader.process_index
    whole = sum(_bytes_of(spec.dtype, spec.shape) for spec in specs)
    device = sum(_bytes_of(s.dtype, s.sharding.shard_shape(s.shape)) for s in specs)
    on_process = device * layout.process_of_device.count(process)
    buffer_bytes = config.prefetch_depth * on_process
    cap = ""
    if config.prefetch_bytes is not None and config.prefetch_bytes < buffer_bytes:
        fit = config.prefetch_bytes // on_process
        held = f"room for {fit}" if fit else "less than one: each is made when it is asked for"
        cap = f", capped at {bytes_text(config.prefetch_bytes)}, {held}"
    return facts(
        step=f"{bytes_text(whole)} in all, process {process} reads "
        f"{count_text(layout.process_batch_size(process), 'row')} of it; "
        f"{bytes_text(on_process)} on its devices, {bytes_text(device)} on each",
        buffer=f"{count_text(config.prefetch_depth, 'batch', 'batches')}, "
        f"{bytes_text(buffer_bytes)} on the devices of process {process}{cap}",
    )


def _leaves(batch: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in batch.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}/")
        else:
            yield path, value


def _spec_of(array: Any) -> str:
    spec = getattr(getattr(array, "sharding", None), "spec", None)
    return "" if spec is None else spec_text(tuple(spec))


def array_text(dtype: Any, shape: tuple[int, ...]) -> str:
    """Return dtype and shape, as in `float32[64, 3]`."""
    return f"{np.dtype(dtype).name}{_shape_text(shape)}"


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _bytes_of(dtype: Any, shape: tuple[int, ...]) -> int:
    return int(math.prod(shape) * np.dtype(dtype).itemsize)


def _bytes_texts(array: Any) -> tuple[str, str]:
    if array.dtype == object:  # its items are pointers, whatever lies behind them
        return "varies", "varies"
    return bytes_text(_bytes_of(array.dtype, array.shape)), bytes_text(_local_bytes(array))


def _local_bytes(array: Any) -> int:
    """Return the bytes of an array that lie on this process, all replicas counted."""
    if not hasattr(array, "sharding"):
        return int(array.nbytes)
    # Not `addressable_shards`, which a donated array no longer has.
    shard = _bytes_of(array.dtype, array.sharding.shard_shape(array.shape))
    return shard * len(array.sharding.addressable_devices)

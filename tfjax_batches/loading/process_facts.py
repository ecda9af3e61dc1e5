# SPDX-License-Identifier: Apache-2.0
"""What must be equal on all processes for them to load parts of the same batches."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfjax_batches.config.batch_config import Config
from tfjax_batches.config.mixture_config import MixtureConfig, Source
from tfjax_batches.features.paths import path_text
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.loading.open_source import OpenSource
from tfjax_batches.planning.order import ORDER_VERSION

# Fields that change speed or memory and no value, or that name a place on one machine. `dataset`
# may be a folder of this machine; the dataset's own name is compared once it is open.
_MAY_DIFFER = frozenset(
    {
        "data_dir",
        "dataset",
        "prefetch_depth",
        "prefetch_bytes",
        "stall_seconds",
        "group_size",
        "num_parallel_calls",
        "threadpool_size",
        "ram_budget_bytes",
        "verify_crc",
        "reading",
        "read_threads",
        "read_ahead_bytes",
        "cache_dir",
        "cache_bytes",
    }
)


def config_facts(config: Config, sources: Mapping[str, Source]) -> dict[str, Any]:
    """Return the fields of a config that change the data, with its filters, as JSON values."""
    names = [field.name for field in dataclasses.fields(config) if field.name not in _MAY_DIFFER]
    facts = {name: getattr(config, name) for name in names}
    if isinstance(config, MixtureConfig):
        del facts["sources"]
    for name, source in sources.items():
        of_source = _source_facts(source)
        if not name:  # of a `BatchConfig`, which has num_epochs
            del of_source["max_epochs"]
        prefix = f"sources[{name!r}]." if name else ""
        facts |= {f"{prefix}{field}": value for field, value in of_source.items()}
    return facts


def _source_facts(source: Source) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(source) if field.name not in _MAY_DIFFER]
    facts = {name: getattr(source, name) for name in names}
    facts["split"] = str(source.split)  # of a split object, whose ranges are compared later
    # Their order means nothing, and a key of JSON is a text.
    facts["features"] = source.features and sorted(map(path_text, source.features))
    facts["pad_to"] = {path_text(name): length for name, length in source.pad_to.items()}
    facts["filter"] = source.filter and [source.filter.name, *source.filter.features]
    return facts


def data_facts(loader: BatchLoader, sources: Sequence[OpenSource]) -> dict[str, Any]:
    """Return what datasets, transforms and sharding turned out to be, as JSON values."""
    facts: dict[str, Any] = {}
    parts = zip(sources, loader.pipeline.group.sources, loader.plan.sources, strict=True)
    for each, function, plan in parts:
        prefix = f"sources[{each.name!r}]: " if len(sources) > 1 else ""
        of_source = {
            "dataset": each.split.name,
            "ranges": each.split.describe_ranges(),
            "transforms": function.chain.labels,
            "graphs of transforms": function.chain.digest(),
            "selected examples": [plan.selection.describe(), *plan.selection.fingerprint],
        }
        facts |= {f"{prefix}{field}": value for field, value in of_source.items()}
    facts |= {
        "mesh": loader.layout.mesh_shape,
        "spec": loader.layout.spec,
        "feature specs": loader.layout.feature_specs,
        "order version": ORDER_VERSION,
    }
    for path, spec in loader.global_specs.items():
        facts[f"{path_text(path)} on the device"] = [str(spec.dtype), spec.sharding.memory_kind]
    for spec in list(loader.global_specs.values())[:1]:  # all are on one mesh
        mesh = spec.sharding.mesh
        facts["devices"] = [device.id for device in mesh.devices.flat]
        facts["axis types"] = str(getattr(mesh, "axis_types", None))
    return facts

# SPDX-License-Identifier: Apache-2.0
"""What must be equal on all processes for them to load parts of the same batches."""

import dataclasses
from typing import Any

from tfjax_batches.config.batch_config import BatchConfig
from tfjax_batches.features.paths import path_text
from tfjax_batches.loading.loader import BatchLoader
from tfjax_batches.planning.order import ORDER_VERSION
from tfjax_batches.preprocess.filter import FilterExamples
from tfjax_batches.reading.split import Split

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
    }
)


def config_facts(config: BatchConfig, filter: FilterExamples | None) -> dict[str, Any]:
    """Return the fields of a config that change the data, and the filter, as JSON values."""
    names = [f.name for f in dataclasses.fields(config) if f.name not in _MAY_DIFFER]
    facts = {name: getattr(config, name) for name in names}
    facts["split"] = str(config.split)  # of a split object, whose ranges are compared later
    # Their order means nothing, and a key of JSON is a text.
    facts["features"] = config.features and sorted(map(path_text, config.features))
    facts["pad_to"] = {path_text(name): length for name, length in config.pad_to.items()}
    facts["filter"] = filter and [filter.name, *filter.features]
    return facts


def data_facts(loader: BatchLoader, split: Split) -> dict[str, Any]:
    """Return what dataset, transforms and sharding turned out to be, as JSON values."""
    chain = loader.pipeline.group.sources[0].chain
    facts = {
        "dataset": split.name,
        "ranges": split.describe_ranges(),
        "mesh": loader.layout.mesh_shape,
        "spec": loader.layout.spec,
        "feature specs": loader.layout.feature_specs,
        "order version": ORDER_VERSION,
        "transforms": chain.labels,
        "graphs of transforms": chain.digest(),
        "selected examples": [
            [source.selection.describe(), *source.selection.fingerprint]
            for source in loader.plan.sources
        ],
    }
    for path, spec in loader.global_specs.items():
        facts[f"{path_text(path)} on the device"] = [str(spec.dtype), spec.sharding.memory_kind]
    for spec in list(loader.global_specs.values())[:1]:  # all are on one mesh
        mesh = spec.sharding.mesh
        facts["devices"] = [device.id for device in mesh.devices.flat]
        facts["axis types"] = str(getattr(mesh, "axis_types", None))
    return facts

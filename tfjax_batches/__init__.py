# SPDX-License-Identifier: Apache-2.0
"""TFDS datasets as global `jax.Array` batches, each a pure function of (config, step).

Public names are resolved on first use (PEP 562): importing the package loads neither JAX nor
TensorFlow, so that a layout can be planned where they are not wanted.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfjax_batches.build import build
    from tfjax_batches.config import BatchConfig, Remainder, Shuffle
    from tfjax_batches.describe import describe
    from tfjax_batches.description import Description
    from tfjax_batches.dry_run import dry_run
    from tfjax_batches.errors import (
        AgreementError,
        BatchesError,
        ConfigError,
        DatasetNotFoundError,
        FeatureError,
        IteratorClosedError,
        LayoutError,
        MissingPackageError,
        RecordError,
        ReplicaMismatchError,
        SplitError,
        StateError,
        TransformError,
        UnsupportedError,
    )
    from tfjax_batches.evaluation import gather_examples, masked_mean
    from tfjax_batches.flags import (
        batch_config_from_flags,
        define_batch_flags,
        sharding_from_flags,
    )
    from tfjax_batches.loader import BatchIterator, BatchLoader
    from tfjax_batches.placing.sharding import data_sharding
    from tfjax_batches.planning.layout import BatchLayout
    from tfjax_batches.planning.plan import StepPlan
    from tfjax_batches.plot_layout import plot_layout
    from tfjax_batches.preprocess.keep import KeepExamples
    from tfjax_batches.preprocess.registry import register_op
    from tfjax_batches.preprocess.transforms import MapBatches, MapExamples
    from tfjax_batches.replicas import check_replicas
    from tfjax_batches.show import show

_MODULE_OF = {
    "AgreementError": "errors",
    "BatchConfig": "config",
    "BatchIterator": "loader",
    "BatchLayout": "planning.layout",
    "BatchLoader": "loader",
    "BatchesError": "errors",
    "ConfigError": "errors",
    "DatasetNotFoundError": "errors",
    "Description": "description",
    "FeatureError": "errors",
    "IteratorClosedError": "errors",
    "KeepExamples": "preprocess.keep",
    "LayoutError": "errors",
    "MapBatches": "preprocess.transforms",
    "MapExamples": "preprocess.transforms",
    "MissingPackageError": "errors",
    "RecordError": "errors",
    "Remainder": "config",
    "ReplicaMismatchError": "errors",
    "Shuffle": "config",
    "SplitError": "errors",
    "StateError": "errors",
    "StepPlan": "planning.plan",
    "TransformError": "errors",
    "UnsupportedError": "errors",
    "batch_config_from_flags": "flags",
    "build": "build",
    "check_replicas": "replicas",
    "data_sharding": "placing.sharding",
    "define_batch_flags": "flags",
    "describe": "describe",
    "dry_run": "dry_run",
    "gather_examples": "evaluation",
    "masked_mean": "evaluation",
    "plot_layout": "plot_layout",
    "register_op": "preprocess.registry",
    "sharding_from_flags": "flags",
    "show": "show",
}

__all__ = [
    "AgreementError",
    "BatchConfig",
    "BatchIterator",
    "BatchLayout",
    "BatchLoader",
    "BatchesError",
    "ConfigError",
    "DatasetNotFoundError",
    "Description",
    "FeatureError",
    "IteratorClosedError",
    "KeepExamples",
    "LayoutError",
    "MapBatches",
    "MapExamples",
    "MissingPackageError",
    "RecordError",
    "Remainder",
    "ReplicaMismatchError",
    "Shuffle",
    "SplitError",
    "StateError",
    "StepPlan",
    "TransformError",
    "UnsupportedError",
    "batch_config_from_flags",
    "build",
    "check_replicas",
    "data_sharding",
    "define_batch_flags",
    "describe",
    "dry_run",
    "gather_examples",
    "masked_mean",
    "plot_layout",
    "register_op",
    "sharding_from_flags",
    "show",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        # With both, Python itself says which name is near.
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    module = importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `tfjax_batches.build` the function.

    The import system sets each imported submodule as an attribute of its package, which would
    put the module `build` in the place of the function of that name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

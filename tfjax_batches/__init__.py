# SPDX-License-Identifier: Apache-2.0
"""TFDS datasets as global `jax.Array` batches, each a pure function of (config, step).

Public names are resolved on first use (PEP 562): importing the package loads neither JAX nor
TensorFlow, so that a layout can be planned where they are not wanted.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from tfjax_batches.version import __version__ as __version__

if TYPE_CHECKING:  # `as`: type checkers take these for public names of this package
    from tfjax_batches.checking.evaluation import gather_examples as gather_examples
    from tfjax_batches.checking.evaluation import masked_mean as masked_mean
    from tfjax_batches.checking.replicas import check_replicas as check_replicas
    from tfjax_batches.commands.flags import batch_config_from_flags as batch_config_from_flags
    from tfjax_batches.commands.flags import define_batch_flags as define_batch_flags
    from tfjax_batches.commands.flags import sharding_from_flags as sharding_from_flags
    from tfjax_batches.config.batch_config import BatchConfig as BatchConfig
    from tfjax_batches.config.mixture_config import MixtureConfig as MixtureConfig
    from tfjax_batches.config.mixture_config import Source as Source
    from tfjax_batches.errors import AgreementError as AgreementError
    from tfjax_batches.errors import BatchesError as BatchesError
    from tfjax_batches.errors import ConfigError as ConfigError
    from tfjax_batches.errors import DatasetNotFoundError as DatasetNotFoundError
    from tfjax_batches.errors import FeatureError as FeatureError
    from tfjax_batches.errors import IteratorClosedError as IteratorClosedError
    from tfjax_batches.errors import LayoutError as LayoutError
    from tfjax_batches.errors import MissingPackageError as MissingPackageError
    from tfjax_batches.errors import RecordError as RecordError
    from tfjax_batches.errors import ReplicaMismatchError as ReplicaMismatchError
    from tfjax_batches.errors import SplitError as SplitError
    from tfjax_batches.errors import StateError as StateError
    from tfjax_batches.errors import TransformError as TransformError
    from tfjax_batches.errors import UnsupportedError as UnsupportedError
    from tfjax_batches.loading.building import build as build
    from tfjax_batches.loading.dry_run import dry_run as dry_run
    from tfjax_batches.loading.iterator import BatchIterator as BatchIterator
    from tfjax_batches.loading.loader import BatchLoader as BatchLoader
    from tfjax_batches.placing.sharding import data_sharding as data_sharding
    from tfjax_batches.planning.layout import BatchLayout as BatchLayout
    from tfjax_batches.planning.plan import StepPlan as StepPlan
    from tfjax_batches.planning.policies import Remainder as Remainder
    from tfjax_batches.planning.policies import Shuffle as Shuffle
    from tfjax_batches.preprocess.filter import FilterExamples as FilterExamples
    from tfjax_batches.preprocess.registry import op as op
    from tfjax_batches.preprocess.registry import register_op as register_op
    from tfjax_batches.preprocess.transforms import MapBatches as MapBatches
    from tfjax_batches.preprocess.transforms import MapExamples as MapExamples
    from tfjax_batches.showing.batch import describe as describe
    from tfjax_batches.showing.layout_picture import plot_layout as plot_layout
    from tfjax_batches.showing.pictures import show as show
    from tfjax_batches.text.description import Description as Description

_NAMES_OF = {
    "checking.evaluation": ("gather_examples", "masked_mean"),
    "checking.replicas": ("check_replicas",),
    "commands.flags": ("batch_config_from_flags", "define_batch_flags", "sharding_from_flags"),
    "config.batch_config": ("BatchConfig",),
    "config.mixture_config": ("MixtureConfig", "Source"),
    "errors": (
        "AgreementError",
        "BatchesError",
        "ConfigError",
        "DatasetNotFoundError",
        "FeatureError",
        "IteratorClosedError",
        "LayoutError",
        "MissingPackageError",
        "RecordError",
        "ReplicaMismatchError",
        "SplitError",
        "StateError",
        "TransformError",
        "UnsupportedError",
    ),
    "loading.building": ("build",),
    "loading.dry_run": ("dry_run",),
    "loading.iterator": ("BatchIterator",),
    "loading.loader": ("BatchLoader",),
    "placing.sharding": ("data_sharding",),
    "planning.layout": ("BatchLayout",),
    "planning.plan": ("StepPlan",),
    "planning.policies": ("Remainder", "Shuffle"),
    "preprocess.filter": ("FilterExamples",),
    "preprocess.registry": ("op", "register_op"),
    "preprocess.transforms": ("MapBatches", "MapExamples"),
    "showing.batch": ("describe",),
    "showing.layout_picture": ("plot_layout",),
    "showing.pictures": ("show",),
    "text.description": ("Description",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
_ROOMS = ("launch", "testing")  # used as `tjb.launch.initialize()`


__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF:
        # With both, Python itself suggests the nearest name.
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    module = importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})

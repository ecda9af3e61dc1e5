# SPDX-License-Identifier: Apache-2.0
"""Types of fields that a type checker and `ml_collections.config_flags` see differently."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tfjax_batches.features.paths import Name
from tfjax_batches.planning.schedule import BatchSize

if TYPE_CHECKING:
    import tensorflow_datasets as tfds

    DatasetName: TypeAlias = str | tfds.core.DatasetBuilder
    SplitName: TypeAlias = str | tfds.typing.SplitArg
    Names: TypeAlias = tuple[Name, ...]
    Lengths: TypeAlias = Mapping[Any, int]  # by name; a Mapping of Name is not one of str
    BatchSizes: TypeAlias = BatchSize
    StageWeights: TypeAlias = Mapping[str, float] | Sequence[tuple[int, Mapping[str, float]]]
    AnyFilter: TypeAlias = Any  # a FilterExamples, which needs TensorFlow
else:
    # A flag can only give a name; `config_flags` refuses unions.
    DatasetName = SplitName = str
    # So are tuples of keys; a flag may give them all the same.
    Names = tuple[str, ...]
    # A flag gives a dict or a list as a literal, which `config_flags` reads for this type alone.
    Lengths = BatchSizes = StageWeights = AnyFilter = object

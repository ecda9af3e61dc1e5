# SPDX-License-Identifier: Apache-2.0
"""Steps made one at a time, by calls of the functions that tf.data calls too."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.features.paths import Path
from tfjax_batches.features.ragged import split_parts
from tfjax_batches.features.rows import GroupFeatures
from tfjax_batches.pipeline.group_function import GroupFunction
from tfjax_batches.pipeline.groups import GroupSizes
from tfjax_batches.pipeline.plain_call import call_plainly
from tfjax_batches.pipeline.planned_reader import PlannedReader

Parts = tuple[npt.NDArray[np.generic], ...]
"""The arrays of a ragged feature, as `split_parts` gives them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SingleSteps:
    """Makes any step alone, with the values that the step has in the dataset.

    A step takes longer than in the dataset, which makes many at once, but there is no iterator to
    open, and an error is that of this step.

    Attributes:
        read: Reads groups of one step or less.
        group: What becomes of the records of a group.
        sizes: How the rows of a step are cut.
    """

    read: PlannedReader
    group: GroupFunction
    sizes: GroupSizes

    def make(self, step: int) -> Mapping[Path, npt.NDArray[np.generic] | Parts]:
        """Return the features of a step, path → read-only array, or parts of a ragged feature.

        Raises:
            RecordError: A record cannot be read.
            tf.errors.OpError: It cannot be decoded, or a transform fails.
        """
        apply = self.group.trace(self.sizes.static_rows)
        with tf.device("CPU"):
            groups: list[GroupFeatures] = [
                call_plainly(apply, *self._read(apply, step, part))
                for part in range(self.sizes.groups_per_step)
            ]
            features = split_parts(_join(groups))
        arrays: Mapping[Path, npt.NDArray[np.generic] | Parts] = tf.nest.map_structure(
            _to_array, features
        )
        return arrays

    def _read(self, apply: Any, step: int, part: int) -> list[tf.Tensor]:
        """Return a group as the arguments of the function of a group."""
        group = self.read(np.int64(step), np.int64(part))
        specs = apply.structured_input_signature[0]
        return [tf.constant(value, spec.dtype) for value, spec in zip(group, specs, strict=True)]


def _join(groups: list[GroupFeatures]) -> GroupFeatures:
    if len(groups) == 1:
        return groups[0]
    return {path: tf.concat([group[path] for group in groups], axis=0) for path in groups[0]}


def _to_array(value: Any) -> npt.NDArray[np.generic]:
    array: npt.NDArray[np.generic] = value.numpy()
    array.setflags(write=False)
    return array

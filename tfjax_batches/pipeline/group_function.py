# SPDX-License-Identifier: Apache-2.0
"""The function that turns the records of a group into the features of a batch.

It decodes, transforms, zeroes padding, and names features as a batch does.

Traced once for each number of rows and kept: tracing takes longer than many batches.
"""

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import HOST, ID, MASK, RESERVED, Path, path_text
from tfjax_batches.features.ragged import empty_rows
from tfjax_batches.features.rows import GroupFeatures
from tfjax_batches.planning.source_plan import PADDING
from tfjax_batches.preprocess.chain import Chain
from tfjax_batches.reading.decode import Decoder


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GroupFunction:
    """A function of the records of a group.

    Attributes:
        decoder: Makes features of records.
        chain: The transforms.
        host_paths: Paths of the features that stay on the host.
        has_mask: Whether to add `_mask`, and to zero the rows of padding.
        id_dtype: Dtype of `_id`; None: there is none.
    """

    decoder: Decoder
    chain: Chain
    host_paths: frozenset[Path]
    has_mask: bool
    id_dtype: np.dtype | None
    _traced: dict[int | None, Any] = dataclasses.field(default_factory=dict, init=False, repr=False)
    _lock: Any = dataclasses.field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        if taken := [path_text(path) for path in self.chain.specs if path[0] in RESERVED]:
            raise FeatureError(
                f"Batches use the names {', '.join(RESERVED)} themselves; the dataset has "
                f"{', '.join(taken)}. Leave these out with features=(…)."
            )

    @property
    def device_specs(self) -> dict[Path, FeatureSpec]:
        """The spec, per row, of each entry of a batch that goes to the devices, by path, sorted."""
        chosen = {p: s for p, s in self.chain.specs.items() if p not in self.host_paths}
        if self.id_dtype is not None:
            chosen[(ID,)] = FeatureSpec(shape=(), dtype=self.id_dtype)
        if self.has_mask:
            chosen[(MASK,)] = FeatureSpec(shape=(), dtype=np.dtype(bool))
        return dict(sorted(chosen.items()))

    @property
    def host_specs(self) -> dict[Path, FeatureSpec]:
        """The spec, per row, of each entry below `_host`, by path, sorted."""
        specs = self.chain.specs
        return {(HOST, *path): specs[path] for path in sorted(self.host_paths)}

    def trace(self, rows: int | None) -> Any:
        """Return the function for groups of so many rows, or of any number: None.

        Returns:
            A `tf.types.experimental.ConcreteFunction` of records string[n], examples int64[n] and
            seeds int32[n, places, 2]. It returns tensors [n, ...] by path, ragged where sizes vary.
        """
        with self._lock:
            if rows not in self._traced:
                signature = [
                    tf.TensorSpec([rows], tf.string),
                    tf.TensorSpec([rows], tf.int64),
                    tf.TensorSpec([rows, len(self.chain.seed_places), 2], tf.int32),
                ]
                # Functions of users are graphs by now: there is no Python to convert.
                function = tf.function(self._apply, autograph=False)
                self._traced[rows] = function.get_concrete_function(*signature)
            return self._traced[rows]

    def _apply(self, records: tf.Tensor, examples: tf.Tensor, seeds: tf.Tensor) -> GroupFeatures:
        features: Mapping[Path, Any] = self.chain(self.decoder.decode(records), seeds)
        if self.has_mask:
            mask = examples != PADDING
            features = {path: _zero_padding(value, mask) for path, value in features.items()}
        batch = {
            (HOST, *path) if path in self.host_paths else path: value
            for path, value in features.items()
        }
        if self.has_mask:
            batch[(MASK,)] = mask
        if self.id_dtype is not None:
            batch[(ID,)] = tf.cast(examples, self.id_dtype)
        return batch


def id_dtype(num_in_split: int) -> np.dtype:
    """Return the dtype of `_id`: int32 where it holds every index of the split, else int64."""
    return np.dtype(np.int32 if num_in_split < 2**31 else np.int64)


def _zero_padding(
    value: tf.Tensor | tf.RaggedTensor, mask: tf.Tensor
) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(value, tf.RaggedTensor):
        return empty_rows(value, mask)
    mask = tf.reshape(mask, [-1] + [1] * (value.shape.rank - 1))
    return tf.where(mask, value, tf.zeros([], value.dtype))

# SPDX-License-Identifier: Apache-2.0
"""The function that turns the records of a group into the features of a batch.

The records of all sources with one function are decoded and transformed together. Then the features
of all functions are put in the order of the rows, padding is zeroed, and features are named as in a
batch.

Traced once for each number of rows and kept: tracing takes longer than many batches.
"""

import dataclasses
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import HOST, ID, MASK, RESERVED, SOURCE, Path, path_text
from tfjax_batches.features.ragged import empty_rows
from tfjax_batches.features.rows import GroupFeatures
from tfjax_batches.pipeline.source_function import SourceFunction
from tfjax_batches.planning.seeds import Int32Array
from tfjax_batches.planning.source_plan import PADDING


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GroupFunction:
    """A function of the records of a group.

    Attributes:
        sources: What becomes of the records of each source; all make features of the same specs.
            Sources may share a function, which is then traced once.
        host_paths: Paths of the features that stay on the host.
        has_mask: Whether to add `_mask`, and to zero the rows of padding.
        id_dtype: Dtype of `_id`; None: there is none.
        has_sources: Whether to add `_source`.
    """

    sources: tuple[SourceFunction, ...]
    host_paths: frozenset[Path]
    has_mask: bool
    id_dtype: np.dtype | None
    has_sources: bool = False
    _traced: dict[int | None, Any] = dataclasses.field(default_factory=dict, init=False, repr=False)
    _lock: Any = dataclasses.field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        if taken := [path_text(path) for path in self.specs if path[0] in RESERVED]:
            raise FeatureError(
                f"Batches use the names {', '.join(RESERVED)} themselves; the dataset has "
                f"{', '.join(taken)}. Leave these out with features=(…)."
            )

    @property
    def functions(self) -> tuple[SourceFunction, ...]:
        """The functions of all sources, each once."""
        return tuple(dict.fromkeys(self.sources))

    @property
    def function_of(self) -> Int32Array:
        """The function of each source, int32[sources], as an index into `functions`."""
        return np.array([self.functions.index(source) for source in self.sources], np.int32)

    @property
    def specs(self) -> Mapping[Path, FeatureSpec]:
        """The spec, per row, of each feature that the sources make, by path."""
        return self.sources[0].chain.specs

    @property
    def row_multiple(self) -> int:
        """Rows of the global batch that belong in one group: from each multiple to the next."""
        return math.lcm(*(source.chain.row_multiple for source in self.sources))

    @property
    def device_specs(self) -> dict[Path, FeatureSpec]:
        """The spec, per row, of each entry of a batch that goes to the devices, by path, sorted."""
        chosen = {p: s for p, s in self.specs.items() if p not in self.host_paths}
        if self.id_dtype is not None:
            chosen[(ID,)] = FeatureSpec(shape=(), dtype=self.id_dtype)
        if self.has_mask:
            chosen[(MASK,)] = FeatureSpec(shape=(), dtype=np.dtype(bool))
        if self.has_sources:
            chosen[(SOURCE,)] = FeatureSpec(shape=(), dtype=np.dtype(np.int32))
        return dict(sorted(chosen.items()))

    @property
    def host_specs(self) -> dict[Path, FeatureSpec]:
        """The spec, per row, of each entry below `_host`, by path, sorted."""
        return {(HOST, *path): self.specs[path] for path in sorted(self.host_paths)}

    def trace(self, rows: int | None) -> Any:
        """Return the function for groups of so many rows, or of any number: None.

        Returns:
            A `tf.types.experimental.ConcreteFunction` of examples int64[n] and sources int32[n],
            then, for each of `functions`, of records string[m] and seeds int32[m, places, 2] of the
            rows of its sources.
            It returns tensors [n, ...] by path, ragged where sizes vary.
        """
        with self._lock:
            if rows not in self._traced:
                signature = [tf.TensorSpec([rows], tf.int64), tf.TensorSpec([rows], tf.int32)]
                of_function = rows if len(self.functions) == 1 else None
                for function in self.functions:
                    places = len(function.chain.seed_places)
                    signature.append(tf.TensorSpec([of_function], tf.string))
                    signature.append(tf.TensorSpec([of_function, places, 2], tf.int32))
                # Functions of users are graphs by now: there is no Python to convert.
                apply = tf.function(self._apply, autograph=False)
                self._traced[rows] = apply.get_concrete_function(*signature)
            return self._traced[rows]

    def _apply(
        self, examples: tf.Tensor, sources: tf.Tensor, *records_and_seeds: tf.Tensor
    ) -> GroupFeatures:
        pairs = zip(records_and_seeds[::2], records_and_seeds[1::2], strict=True)
        made = [make(*pair) for make, pair in zip(self.functions, pairs, strict=True)]
        features: Mapping[Path, Any] = made[0]
        if len(made) > 1:
            features = _join_parts(made, tf.gather(self.function_of, sources))
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
        if self.has_sources:
            batch[(SOURCE,)] = sources
        return batch


def id_dtype(num_in_split: int) -> np.dtype:
    """Return the dtype of `_id`: int32 where it holds every index of the split, else int64."""
    return np.dtype(np.int32 if num_in_split < 2**31 else np.int64)


def _join_parts(parts: Sequence[GroupFeatures], part_of: tf.Tensor) -> GroupFeatures:
    """Return the features of all parts in the order of the rows, given the part of each row."""
    order = tf.math.invert_permutation(tf.argsort(part_of, stable=True))
    return {
        path: tf.gather(tf.concat([part[path] for part in parts], axis=0), order)
        for path in parts[0]
    }


def _zero_padding(
    value: tf.Tensor | tf.RaggedTensor, mask: tf.Tensor
) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(value, tf.RaggedTensor):
        return empty_rows(value, mask)
    mask = tf.reshape(mask, [-1] + [1] * (value.shape.rank - 1))
    return tf.where(mask, value, tf.zeros([], value.dtype))

# SPDX-License-Identifier: Apache-2.0
"""Features whose sizes differ from example to example.

In a `tf.data.Dataset` such a feature is a `tf.RaggedTensor`. In a host batch it is `object[n]`, a
read-only array per example:

* any size, `[h, w, 3]` or `[count, 4]`: a plain array of the example's own shape;
* a sequence of sequences: `object[count]`, again of arrays;
* a padding row: an empty array.

Strings are bytes.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Path

Array = npt.NDArray[np.generic]


def length_path(path: Path) -> Path:
    """Return the path of the lengths of a padded feature."""
    return (*path[:-1], f"{path[-1]}_length")


def padded_specs(path: Path, spec: FeatureSpec, length: int) -> dict[Path, FeatureSpec]:
    """Return the specs by path of what `pad_rows` returns for a feature of some spec."""
    return {
        path: dataclasses.replace(spec, shape=(length, *spec.shape[1:]), nested_sequences=0),
        length_path(path): FeatureSpec(shape=(), dtype=np.dtype(np.int32)),
    }


def pad_rows(path: Path, value: tf.RaggedTensor, length: int) -> dict[Path, tf.Tensor]:
    """Return a feature with rows of one length, and their lengths before, int32[n], by path.

    Longer rows are cut, shorter ones filled with zeros or empty strings.
    """
    return {
        path: value.to_tensor(shape=[value.shape[0], length, *value.shape[2:]]),
        length_path(path): tf.cast(value.row_lengths(), tf.int32),
    }


def empty_rows(value: tf.RaggedTensor, mask: tf.Tensor) -> tf.RaggedTensor:
    """Return `value` with empty rows where `mask`, bool[n], is False."""
    lengths = value.row_lengths() * tf.cast(mask, tf.int64)
    kept = tf.ragged.boolean_mask(value, mask).values
    return tf.RaggedTensor.from_row_lengths(kept, lengths, validate=False)


def split_parts(batch: Mapping[Path, Any]) -> dict[Path, Any]:
    """Return a batch with each ragged tensor as (flat values, row splits, outermost first …)."""
    return {
        path: (value.flat_values, *value.nested_row_splits)
        if isinstance(value, tf.RaggedTensor)
        else value
        for path, value in batch.items()
    }


def join_parts(parts: Sequence[Array], spec: FeatureSpec) -> Array:
    """Return a ragged feature from its parts (`split_parts`), one array per example: object[n]."""
    values, *splits = parts

    def cut(depth: int, start: int, stop: int) -> Array:
        """Return elements `start` to `stop` of the splits at a depth; 0 are the examples."""
        if depth == len(splits):
            return values[start:stop]
        bounds: list[int] = splits[depth][start : stop + 1].tolist()
        spans = list(itertools.pairwise(bounds))
        sizes = {b - a for a, b in spans}
        if depth <= spec.nested_sequences or len(sizes) > 1:
            # Not np.array, which joins arrays that happen to have the same shape.
            arrays = np.fromiter((cut(depth + 1, a, b) for a, b in spans), object)
            arrays.setflags(write=False)
            return arrays
        # All elements have one size, so this is a plain array; an empty one keeps known sizes.
        size = sizes.pop() if sizes else spec.shape[depth] or 0
        flat = cut(depth + 1, bounds[0], bounds[-1])
        return flat.reshape(stop - start, size, *flat.shape[1:])

    return cut(0, 0, len(splits[0]) - 1)

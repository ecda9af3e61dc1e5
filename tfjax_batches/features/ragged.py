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

Array = npt.NDArray[np.generic]


def length_path(path: str) -> str:
    """Return the path of the lengths of a padded feature."""
    return f"{path}_length"


def padded_specs(path: str, spec: FeatureSpec, length: int) -> dict[str, FeatureSpec]:
    """Return the specs by path of what `pad_rows` returns.

    Args:
        path: Path of the feature.
        spec: Its spec before padding.
        length: The length that it gets.
    """
    return {
        path: dataclasses.replace(spec, shape=(length, *spec.shape[1:]), nested_sequences=0),
        length_path(path): FeatureSpec(shape=(), dtype=np.dtype(np.int32)),
    }


def pad_rows(path: str, value: tf.RaggedTensor, length: int) -> dict[str, tf.Tensor]:
    """Return a feature with one length, and its lengths before.

    Args:
        path: Path of the feature.
        value: Its values, ragged in the first dim of an example only.
        length: Longer rows are cut to it, shorter ones filled with zeros or empty strings.

    Returns:
        By path: the values [n, length, ...] and the lengths before, int32[n].
    """
    sizes = value.shape[2:].as_list()
    return {
        path: value.to_tensor(shape=[value.shape[0], length, *sizes]),
        length_path(path): tf.cast(value.row_lengths(), tf.int32),
    }


def empty_rows(value: tf.RaggedTensor, mask: tf.Tensor) -> tf.RaggedTensor:
    """Return `value` with empty rows where `mask`, bool[n], is False."""
    lengths = value.row_lengths() * tf.cast(mask, tf.int64)
    kept = tf.ragged.boolean_mask(value, mask).values
    return tf.RaggedTensor.from_row_lengths(kept, lengths, validate=False)


def split_parts(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch with each ragged tensor as a tuple of dense tensors, which NumPy can hold.

    The tuple has the flat values, then the row splits, outermost first.
    """
    return {
        path: (value.flat_values, *value.nested_row_splits)
        if isinstance(value, tf.RaggedTensor)
        else value
        for path, value in batch.items()
    }


def join_parts(parts: Sequence[Array], spec: FeatureSpec) -> npt.NDArray[np.object_]:
    """Return a ragged feature as one array per example, `object[n]`.

    Args:
        parts: The feature as `split_parts` returns it.
        spec: Its spec.
    """
    values, outer, *inner = parts
    return _stack_objects(
        [
            _cut(values, inner, start, stop, spec.nested_sequences, spec.shape)
            for start, stop in itertools.pairwise(outer.tolist())
        ]
    )


def _cut(
    values: Array,
    splits: Sequence[Any],
    start: int,
    stop: int,
    nested_sequences: int,
    shape: Sequence[int | None],
) -> Array:
    """Return elements `start` to `stop` of the outermost of `splits`, an array of `shape`."""
    if not splits:
        return values[start:stop]
    bounds = splits[0][start : stop + 1].tolist()
    sizes = {b - a for a, b in itertools.pairwise(bounds)}
    deeper, inner_shape = splits[1:], shape[1:]
    if nested_sequences > 0 or len(sizes) > 1:
        return _stack_objects(
            [
                _cut(values, deeper, a, b, nested_sequences - 1, inner_shape)
                for a, b in itertools.pairwise(bounds)
            ]
        )
    # All elements have one size, so this is a plain array; if it is empty, known sizes still hold.
    size = sizes.pop() if sizes else inner_shape[0] or 0
    flat = _cut(values, deeper, bounds[0], bounds[-1], 0, inner_shape)
    return flat.reshape(stop - start, size, *flat.shape[1:])


def _stack_objects(arrays: Sequence[Array]) -> npt.NDArray[np.object_]:
    stacked = np.empty(len(arrays), object)
    # One by one: NumPy would join arrays that happen to have the same shape.
    for index, array in enumerate(arrays):
        stacked[index] = array
    stacked.setflags(write=False)
    return stacked

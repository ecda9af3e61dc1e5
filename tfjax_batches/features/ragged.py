# SPDX-License-Identifier: Apache-2.0
"""Features whose sizes differ from example to example, as they stand in host batches.

On the host such a feature is `object[n]`, one read-only array per example:

* any size, `[h, w, 3]` or `[count, 4]`: a plain array of the example's own shape;
* a sequence of sequences: `object[count]`, again of arrays;
* a padding row: an array of no element.

Strings are bytes. In a `tf.data.Dataset` the same feature is a `tf.RaggedTensor`.
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
    """Return where the lengths of a padded feature stand."""
    return f"{path}_length"


def padded_specs(path: str, spec: FeatureSpec, length: int) -> dict[str, FeatureSpec]:
    """Return the specs, by path, of what `pad_rows` makes of a feature of that spec."""
    return {
        path: dataclasses.replace(spec, shape=(length, *spec.shape[1:]), nested_sequences=0),
        length_path(path): FeatureSpec(shape=(), dtype=np.dtype(np.int32)),
    }


def pad_rows(path: str, value: tf.RaggedTensor, length: int) -> dict[str, tf.Tensor]:
    """Return [n, length, ...] and the lengths before, int32[n], by path.

    Rows that are longer are cut, shorter ones filled with zeros or empty strings.
    """
    sizes = value.shape[2:].as_list()
    return {
        path: value.to_tensor(shape=[value.shape[0], length, *sizes]),
        length_path(path): tf.cast(value.row_lengths(), tf.int32),
    }


def empty_rows(value: tf.RaggedTensor, mask: tf.Tensor) -> tf.RaggedTensor:
    """Return `value` with nothing in the rows where `mask`, bool[n], is False."""
    lengths = value.row_lengths() * tf.cast(mask, tf.int64)
    kept = tf.ragged.boolean_mask(value, mask).values
    return tf.RaggedTensor.from_row_lengths(kept, lengths, validate=False)


def split_parts(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch with each ragged tensor as its dense parts, which NumPy can hold.

    The parts are the flat values and the row splits from the outermost on.
    """
    return {
        path: (value.flat_values, *value.nested_row_splits)
        if isinstance(value, tf.RaggedTensor)
        else value
        for path, value in batch.items()
    }


def join_parts(parts: Sequence[Array], spec: FeatureSpec) -> npt.NDArray[np.object_]:
    """Return `object[n]`, one array per example, from what `split_parts` made of a feature.

    Args:
        parts: Flat values and row splits.
        spec: Of the feature; a size of None is found in the splits.
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
    """Return elements start to stop of the outermost of `splits`, as an array of that `shape`."""
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
    # All elements have one size: a plain array, of which the sizes that are known stay so even
    # where it holds nothing.
    size = sizes.pop() if sizes else inner_shape[0] or 0
    flat = _cut(values, deeper, bounds[0], bounds[-1], 0, inner_shape)
    return flat.reshape(stop - start, size, *flat.shape[1:])


def _stack_objects(arrays: Sequence[Array]) -> npt.NDArray[np.object_]:
    stacked = np.empty(len(arrays), object)
    # Not at once: of arrays that happen to have one shape NumPy makes one array.
    for place, array in enumerate(arrays):
        stacked[place] = array
    stacked.setflags(write=False)
    return stacked

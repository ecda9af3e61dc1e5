# SPDX-License-Identifier: Apache-2.0
"""A function of one example, applied to all rows of a group."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfjax_batches.features.feature_spec import FeatureSpec

Example = Mapping[str, tf.Tensor | tf.RaggedTensor]

UNROLL_LIMIT = 128
"""Rows up to which a group's graph holds a copy of the function for each row.

Decoding 28 × 28 PNGs on two cores, 128 copies ran 126,000 a second and `tf.map_fn` 20,000 to
23,000: a loop costs more than such an image. 256 copies were no faster and took twice as long to
trace.
"""


def map_rows(function: Callable[[Example], Any], rows: Example, signature: Any) -> Any:
    """Return `function` of each row, stacked.

    Args:
        function: Takes one row: a dict of tensors of one rank less.
        rows: Tensors [n, ...] by name, dense or ragged.
        signature: What `function` returns: a `tf.TensorSpec` or `tf.RaggedTensorSpec`, or a
            nested structure of them.
    """
    count = next(iter(rows.values())).shape[0]
    are_dense = not any(isinstance(value, tf.RaggedTensor) for value in rows.values())
    specs = tf.nest.flatten(signature)
    are_fixed = all(isinstance(s, tf.TensorSpec) and s.shape.is_fully_defined() for s in specs)
    if not (count is not None and count <= UNROLL_LIMIT and are_dense and are_fixed):
        return tf.map_fn(function, rows, fn_output_signature=signature)
    columns = {name: tf.unstack(value, num=count) for name, value in rows.items()}
    results = [
        function({name: column[row] for name, column in columns.items()}) for row in range(count)
    ]
    return tf.nest.map_structure(
        lambda spec, *parts: tf.stack([tf.ensure_shape(part, spec.shape) for part in parts]),
        signature,
        *results,
    )


def to_row(value: tf.Tensor | tf.RaggedTensor, spec: FeatureSpec) -> tf.Tensor | tf.RaggedTensor:
    """Return one example's value as a row of a group: as `spec.row_signature` says."""
    return value if spec.is_fixed else _to_ragged(value, spec.ragged_rank)


def to_example(row: tf.Tensor | tf.RaggedTensor, spec: FeatureSpec) -> tf.Tensor | tf.RaggedTensor:
    """Return a row of a group as one example: as `spec.example_signature` says."""
    if not isinstance(row, tf.RaggedTensor) or spec.nested_sequences:
        return row
    dense = row.to_tensor()
    # What a user's function of groups has made need not be so, and would be filled with zeros.
    same = tf.debugging.assert_equal(
        tf.size(dense), tf.size(row.flat_values), "Sizes differ within one example."
    )
    with tf.control_dependencies([same]):
        return tf.ensure_shape(dense, spec.shape)


def _to_ragged(value: tf.Tensor | tf.RaggedTensor, rank: int) -> tf.Tensor | tf.RaggedTensor:
    """Return a value with `rank` ragged dimensions behind its first."""
    if isinstance(value, tf.RaggedTensor):
        below = rank - value.ragged_rank
        return value.with_flat_values(_to_ragged(value.flat_values, below))
    return value if rank == 0 else tf.RaggedTensor.from_tensor(value, ragged_rank=rank)

# SPDX-License-Identifier: Apache-2.0
"""Shape and dtype of one feature, and the TensorFlow signatures that follow from them."""

import dataclasses

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSpec:
    """Shape and dtype of one feature of one example.

    Attributes:
        shape: None where the size differs from example to example.
        dtype: `object` for strings.
        nested_sequences: Number of sequences within the outermost one, which is the number of
            dims after the first whose sizes may differ within one example.
    """

    shape: tuple[int | None, ...]
    dtype: np.dtype
    nested_sequences: int = 0

    @property
    def is_string(self) -> bool:
        """Whether values are bytes."""
        return self.dtype.kind in "OSU"

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The sizes that are equal for all examples."""
        return tuple(size for size in self.shape if size is not None)

    @property
    def is_fixed(self) -> bool:
        """Whether all examples have the same shape."""
        return None not in self.shape

    @property
    def is_paddable(self) -> bool:
        """Whether the first size, and no other, differs from example to example."""
        return self.shape[:1] == (None,) and None not in self.shape[1:]

    @property
    def tf_dtype(self) -> tf.DType:
        """The dtype in TensorFlow."""
        return tf.string if self.is_string else tf.as_dtype(self.dtype)

    @property
    def ragged_rank(self) -> int:
        """Number of ragged dims of one row: those before the last one of unknown size."""
        return max((dim for dim, size in enumerate(self.shape) if size is None), default=0)

    @property
    def row_signature(self) -> tf.TensorSpec | tf.RaggedTensorSpec:
        """One example in the form that `tf.map_fn` stacks; ragged where any size is unknown."""
        if self.is_fixed:
            return tf.TensorSpec(self.shape, self.tf_dtype)
        return tf.RaggedTensorSpec(self.shape, self.tf_dtype, ragged_rank=self.ragged_rank)

    @property
    def example_signature(self) -> tf.TensorSpec | tf.RaggedTensorSpec:
        """One example in the form of TFDS; ragged only where sizes differ within it."""
        if self.nested_sequences:
            return self.row_signature
        return tf.TensorSpec(self.shape, self.tf_dtype)

    def group_signature(self, rows: int | None) -> tf.TensorSpec | tf.RaggedTensorSpec:
        """A group of `rows` examples; None: any number."""
        shape = (rows, *self.shape)
        if self.is_fixed:
            return tf.TensorSpec(shape, self.tf_dtype)
        return tf.RaggedTensorSpec(shape, self.tf_dtype, ragged_rank=self.ragged_rank + 1)

    def describe(self) -> str:
        """Return dtype and shape, for messages."""
        if self.shape == ():
            return "a string" if self.is_string else str(self.dtype)
        return f"{'strings' if self.is_string else self.dtype} of shape {self.shape}"

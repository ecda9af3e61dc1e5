# SPDX-License-Identifier: Apache-2.0
"""From a dataset and example indices to decoded features. TensorFlow lives here, JAX does not.

In: a TFDS builder, a split, indices. Out: tensors by feature path. Knows no row and no step.
"""

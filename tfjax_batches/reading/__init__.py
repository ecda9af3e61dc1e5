# SPDX-License-Identifier: Apache-2.0
"""From a dataset and example indices to decoded features. TensorFlow is used here, JAX is not.

In: a TFDS builder, a split, example indices. Out: tensors by feature path. Knows no rows and no
steps.
"""

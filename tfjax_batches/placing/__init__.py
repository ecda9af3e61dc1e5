# SPDX-License-Identifier: Apache-2.0
"""Host batch → global jax.Array → double buffer, and the device memory they take.

In: host batches and shardings. Out: batches of `jax.Array`s, made ahead of the consumer. JAX lives
here; knows no dataset and loads no TensorFlow.
"""

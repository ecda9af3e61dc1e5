# SPDX-License-Identifier: Apache-2.0
"""After the batch: compare replicas, and gather the results of each example once.

In: pytrees of global `jax.Array`s. Out: errors, or NumPy arrays on every process. The functions use
collectives, so every process calls them.
"""

# SPDX-License-Identifier: Apache-2.0
"""The example in each row at every step, and the rows of each process: integers in and out.

Uses NumPy only: knows no dataset, no TensorFlow and no JAX.
"""

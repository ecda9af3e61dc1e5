# SPDX-License-Identifier: Apache-2.0
"""Which example stands in which row, at every step: integers in, integers out.

NumPy alone: knows no dataset, no TensorFlow and no JAX.
"""

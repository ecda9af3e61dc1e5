# SPDX-License-Identifier: Apache-2.0
"""Which example stands in which row at every step. Pure NumPy; knows neither TF nor JAX."""

# SPDX-License-Identifier: Apache-2.0
"""Plan + reader + decoder + transforms → the host batches of one process.

In: a plan, rows, a reader. Out: NumPy batches, or the error that explains why a step failed.
"""

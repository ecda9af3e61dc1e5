# SPDX-License-Identifier: Apache-2.0
"""What a feature is: its spec, its path in a batch, its rows in a group of examples.

All rooms that handle features use it. Knows no files, no plan and no JAX.
"""

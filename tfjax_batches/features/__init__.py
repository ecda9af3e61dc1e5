# SPDX-License-Identifier: Apache-2.0
"""What a feature is: its spec, its path in a batch, its rows in a group.

Shared by all rooms that handle features; knows no file, no plan and no JAX.
"""

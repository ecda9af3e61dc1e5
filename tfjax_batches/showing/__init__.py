# SPDX-License-Identifier: Apache-2.0
"""Descriptions and pictures of batches, layouts and runs, for people.

In: batches, and values of the rooms above. Out: a `Description` or a matplotlib figure. Reads no
records and does not know the loader.
"""

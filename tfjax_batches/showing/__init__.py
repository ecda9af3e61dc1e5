# SPDX-License-Identifier: Apache-2.0
"""Descriptions and pictures of batches, layouts and runs, for people.

In: values of the rooms above. Out: a Description or a matplotlib figure. Reads no data.
"""

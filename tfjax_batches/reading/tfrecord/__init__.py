# SPDX-License-Identifier: Apache-2.0
"""TFRecord files by index: what a stored record looks like, where each begins, how it is read.

In: a `Split` and example indices. Out: the stored bytes of each example, checked.
"""

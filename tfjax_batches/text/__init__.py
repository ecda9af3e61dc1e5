# SPDX-License-Identifier: Apache-2.0
"""Texts for people: descriptions, counts, values. Strings and tables out; no framework."""

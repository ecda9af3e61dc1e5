# SPDX-License-Identifier: Apache-2.0
"""Words for people: descriptions, counts, values. Strings and tables out; knows no framework."""

# SPDX-License-Identifier: Apache-2.0
"""How the bytes of files are read."""

import enum


class Reading(enum.StrEnum):
    """How the bytes of files are read; changes no value."""

    AUTO = "auto"
    """By memory maps from disks of this machine, in ranges from elsewhere."""
    MAP = "map"
    """By memory maps: nothing is copied, and a page that is not in memory is read when touched."""
    RANGE = "range"
    """In ranges, many at a time, ahead of the step that needs them where the order has blocks."""

# SPDX-License-Identifier: Apache-2.0
"""How steps are cut into groups, the unit of work and of parallelism.

A group is a part of a step, a whole step or, where records are tiny, several whole steps.
"""

import dataclasses

# Enough bytes to make the call from tf.data into Python cheap beside the work (it costs some
# 0.4 ms of CPU), few enough that the groups of one batch of images keep all cores busy.
_GROUP_BYTES = 2**20

# Steps of a group, at most. 256 rows of 300 bytes took 1.3 ms of CPU a step in groups of one step,
# 0.97 in groups of four and 0.87 in groups of eight (`scripts/bench.py tabular`).
_MOST_STEPS = 8

# Rows of a group of several steps, at most, where each example is decoded by itself: beside that,
# handing over a step costs little, and the first batch would wait for all the others.
_MOST_MAPPED_ROWS = 128


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupSizes:
    """How the rows of steps are cut into groups.

    Attributes:
        rows: Rows of a step on this process.
        group_rows: Rows of a step in each group; the last group of a step may have fewer.
        steps: Steps of each group; other than 1 only where a group holds all rows of a step.
    """

    rows: int
    group_rows: int
    steps: int = 1

    @property
    def groups_per_step(self) -> int:
        """Groups of a step."""
        return -(-self.rows // self.group_rows)

    @property
    def static_rows(self) -> int | None:
        """Rows of each group, over all its steps; None: not all groups have as many."""
        return None if self.rows % self.group_rows else self.steps * self.group_rows


def plan_group_sizes(
    rows: int,
    mean_record_bytes: float,
    *,
    group_size: int | None = None,
    row_multiple: int = 1,
    maps_each_example: bool = False,
) -> GroupSizes:
    """Return groups of equal size where that does not make them much smaller.

    Args:
        rows: Rows of a step on this process.
        mean_record_bytes: Mean size of a stored record.
        group_size: Rows of a group, at most, by the user's choice. None: chosen here.
        row_multiple: What the rows of a group are a multiple of; divides `rows`, and is no larger
            than `group_size`.
        maps_each_example: Whether each example is decoded or transformed by itself.

    Example:
        >>> plan_group_sizes(256, 300.0).steps
        8
        >>> plan_group_sizes(64, 60_000.0).group_rows
        16
    """
    if group_size is None:
        group_size = max(1, int(_GROUP_BYTES / mean_record_bytes))
    if group_size >= rows:
        most_rows = min(group_size, _MOST_MAPPED_ROWS) if maps_each_example else group_size
        steps = min(_MOST_STEPS, max(1, most_rows // rows))
        return GroupSizes(rows=rows, group_rows=rows, steps=steps)
    largest = max(1, group_size // row_multiple) * row_multiple
    # Equal groups have one static size, and are joined without cutting.
    for group_rows in range(largest, largest // 2, -row_multiple):
        if rows % group_rows == 0:
            return GroupSizes(rows=rows, group_rows=group_rows)
    return GroupSizes(rows=rows, group_rows=largest)

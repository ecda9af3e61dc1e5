# SPDX-License-Identifier: Apache-2.0
"""Counts, bytes and runs of integers, for messages and descriptions."""

import numpy as np
import numpy.typing as npt

_RUNS_SHOWN = 4


def count_text(count: float, one: str, many: str | None = None) -> str:
    """Return a count and its noun, whose plural is `many`, or has an s.

    Example:
        >>> count_text(1, "row"), count_text(1437, "row"), count_text(1.5, "time")
        ('1 row', '1,437 rows', '1.5 times')
    """
    number = f"{int(count):,}" if count == int(count) else f"{count:.3g}"
    return f"{number} {one if count == 1 else many or one + 's'}"


def bytes_text(count: int) -> str:
    """Return a number of bytes; small numbers are exact.

    Example:
        >>> bytes_text(4352), bytes_text(38_535_168)
        ('4,352 B', '38.5 MB')
    """
    if count < 10_000:
        return f"{count:,} B"
    units = ("KB", "MB", "GB", "TB", "PB")
    power = next((p for p in range(1, len(units)) if count < 999.5 * 1000**p), len(units))
    return f"{count / 1000**power:.3g} {units[power - 1]}"


def runs_text(values: npt.NDArray[np.int64]) -> str:
    """Return rising integers as runs, at most four of them.

    Example:
        >>> runs_text(np.array([0, 1, 2, 3, 8]))
        '0–3, 8'
    """
    breaks = np.flatnonzero(np.diff(values) != 1) + 1
    runs = np.split(values, breaks)
    texts = [f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs[:_RUNS_SHOWN]]
    more = len(runs) > _RUNS_SHOWN
    return ", ".join(texts) + (f", … ({len(values):,} in all)" if more else "")


def nearest_multiples(number: int, divisor: int) -> str:
    """Return the nearest positive multiples of a divisor, for a number that it does not divide.

    Example:
        >>> nearest_multiples(6, 4), nearest_multiples(2, 4)
        ('4 or 8', '4')
    """
    below = number // divisor * divisor
    return f"{below} or {below + divisor}" if below else f"{divisor}"

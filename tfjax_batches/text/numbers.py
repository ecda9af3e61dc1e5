# SPDX-License-Identifier: Apache-2.0
"""What counts as an integer or a number in an argument. NumPy's do; bools do not."""

import math
import numbers
from typing import Any


def is_integer(value: Any, least: int | None = None, most: int | None = None) -> bool:
    """Return whether a value is an integer, of Python or NumPy, and least <= value <= most.

    Example:
        >>> is_integer(3, least=1), is_integer(0, least=1), is_integer(True), is_integer(3.0)
        (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return False
    return (least is None or least <= int(value)) and (most is None or int(value) <= most)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite real number.

    Example:
        >>> is_number(0.5), is_number(3), is_number(float("nan")), is_number(True)
        (True, True, False, False)
    """
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_real and abs(value) < math.inf

# SPDX-License-Identifier: Apache-2.0
"""Values of features as short texts, for tables and titles."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_VALUES_SHOWN = 12
_TEXT_SHOWN = 40


def value_text(value: Any, names: Sequence[str] = ()) -> str:
    """Return a scalar, bytes or an array as text, cut short; `names` replace integers.

    Example:
        >>> value_text(1, ["ant", "bee"]), value_text(np.arange(20)), value_text(b"text")
        ('bee', '0 1 2 3 4 5 6 7 8 9 10 11 …', 'text')
    """
    array = np.asarray(value)
    if array.ndim:
        flat = array.ravel()[:_VALUES_SHOWN]
        more = " …" if array.size > _VALUES_SHOWN else ""
        return " ".join(value_text(each, names) for each in flat) + more
    item = array.item()
    if array.dtype.kind in "iu" and 0 <= item < len(names):
        return str(names[item])
    if isinstance(item, float):
        return f"{item:.4g}"
    text = item.decode(errors="replace") if isinstance(item, bytes) else str(item)
    return shorten(text, _TEXT_SHOWN)


def shorten(text: str, width: int) -> str:
    """Return a text of at most `width` letters."""
    return text if len(text) <= width else f"{text[: width - 1]}…"

# SPDX-License-Identifier: Apache-2.0
"""Checks of the literals that ops take. A fault is a ConfigError with rule, value and mend."""

import math
from typing import Any

from tfjax_batches.errors import ConfigError

MAX_SIZE = 2**16
"""Pixels of a side; more is a slip, and no machine holds a batch of it."""


def check_size(size: Any) -> tuple[int, int]:
    """Return (height, width) of a side, or of such a pair."""
    pair = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2 or not all(_is_integer(side, 1, MAX_SIZE) for side in pair):
        raise ConfigError(
            f"size is a side in pixels, 1 to {MAX_SIZE}, or (height, width); got {size!r}. "
            "Write 224, or (224, 320)."
        )
    return pair[0], pair[1]


def check_integer(name: str, value: Any, least: int, most: int = 2**31 - 1) -> int:
    """Return an integer argument that has bounds."""
    if not _is_integer(value, least, most):
        raise ConfigError(
            f"{name} is an integer, {least} to {most}; got {value!r}. Write {name}={max(least, 1)}."
        )
    return int(value)


def check_number(name: str, value: Any, above: float | None = None) -> float:
    """Return a finite number, perhaps one above a bound."""
    if not _is_number(value) or (above is not None and value <= above):
        bound = "" if above is None else f" above {above:g}"
        raise ConfigError(f"{name} is a number{bound}; got {value!r}. Write {name}=0.5.")
    return float(value)


def check_range(name: str, value: Any, most: float = math.inf) -> tuple[float, float]:
    """Return (low, high), two numbers above 0 in order."""
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or not all(map(_is_number, pair)) or not 0 < pair[0] <= pair[1] <= most:
        raise ConfigError(
            f"{name} is (low, high), above 0{'' if most == math.inf else f', up to {most:g}'} and "
            f"in order; got {value!r}. Write {name}=(0.5, 1.0)."
        )
    return float(pair[0]), float(pair[1])


def check_numbers(name: str, value: Any) -> tuple[float, ...]:
    """Return the numbers of an argument that may be one number."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not values or not all(map(_is_number, values)):
        raise ConfigError(
            f"{name} is a number, or one of each channel; got {value!r}. Write {name}=(0.5,)."
        )
    return tuple(float(number) for number in values)


def check_path(name: str, value: Any) -> str:
    """Return the path of a feature."""
    if not isinstance(value, str) or not value or not all(value.split("/")):
        raise ConfigError(
            f"{name} is the path of a feature; got {value!r}. Write 'image', or 'objects/bbox'."
        )
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is True or False; got {value!r}. Write {name}=True.")
    return value


def _is_integer(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

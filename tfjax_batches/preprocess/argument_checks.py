# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of ops, transforms and filters; each raises a ConfigError."""

import math
from typing import Any

from tfjax_batches.errors import ConfigError
from tfjax_batches.text.numbers import is_integer, is_number

MAX_SIZE = 2**16
"""Largest side of an image in pixels; a larger one is a typing error."""


def check_size(size: Any) -> tuple[int, int]:
    """Return (height, width) from a side in pixels or from such a pair."""
    pair = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2 or not all(is_integer(side, 1, MAX_SIZE) for side in pair):
        raise ConfigError(
            f"size must be a side in pixels, 1 to {MAX_SIZE}, or (height, width); got {size!r}. "
            "Write 224, or (224, 320)."
        )
    return int(pair[0]), int(pair[1])


def check_integer(name: str, value: Any, least: int, most: int = 2**31 - 1) -> int:
    """Return an integer from `least` to `most`."""
    if not is_integer(value, least, most):
        raise ConfigError(
            f"{name} must be an integer from {least} to {most}; got {value!r}. "
            f"Write {name}={max(least, 1)}."
        )
    return int(value)


def check_number(name: str, value: Any, above: float = -math.inf) -> float:
    """Return a finite number above a bound."""
    if not is_number(value) or value <= above:
        bound = "" if above == -math.inf else f" above {above:g}"
        raise ConfigError(f"{name} must be a number{bound}; got {value!r}. Write {name}=0.5.")
    return float(value)


def check_range(name: str, value: Any, most: float = math.inf) -> tuple[float, float]:
    """Return (low, high), with 0 < low <= high <= most."""
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or not all(map(is_number, pair)) or not 0 < pair[0] <= pair[1] <= most:
        bound = "" if most == math.inf else f" <= {most:g}"
        raise ConfigError(
            f"{name} must be (low, high) with 0 < low <= high{bound}; got {value!r}. "
            f"Write {name}=(0.5, 1.0)."
        )
    return float(pair[0]), float(pair[1])


def check_numbers(name: str, value: Any) -> tuple[float, ...]:
    """Return the numbers of an argument that is one number or a tuple of them."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not values or not all(map(is_number, values)):
        raise ConfigError(
            f"{name} must be a number, or one for each channel; got {value!r}. Write {name}=(0.5,)."
        )
    return tuple(float(number) for number in values)


def check_path(name: str, value: Any) -> str:
    """Return the path of a feature."""
    if not isinstance(value, str) or not value or not all(value.split("/")):
        raise ConfigError(
            f"{name} must be the path of a feature; got {value!r}. "
            "Write 'image', or 'objects/bbox'."
        )
    return value


def check_paths(name: str, value: Any) -> tuple[str, ...]:
    """Return the paths of features, perhaps none, as a tuple."""
    if not isinstance(value, tuple | list):
        example = f"({value!r},)" if isinstance(value, str) else "('image',)"
        raise ConfigError(
            f"{name} must be a tuple of feature paths; got {value!r}. Write {example}."
        )
    return tuple(check_path(name, path) for path in value)


def check_flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False; got {value!r}. Write {name}=True.")
    return value


def check_function(owner: str, value: Any) -> None:
    """Raise unless a value can be called."""
    if not callable(value):
        raise ConfigError(
            f"{owner} takes a TensorFlow function; got {value!r}. "
            "Pass the function itself, not its result."
        )

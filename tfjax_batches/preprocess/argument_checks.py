# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of ops, transforms and filters; each raises a ConfigError."""

import math
from collections.abc import Sequence
from typing import Any

from tfjax_batches.errors import ConfigError
from tfjax_batches.features.paths import is_feature_name
from tfjax_batches.text.numbers import is_integer, is_number

MAX_SIZE = 2**16
"""Largest side of an image in pixels; a larger one is a typing error."""


def check_size(size: Any) -> tuple[int, int]:
    """Return (height, width) from a side in pixels or from such a pair."""
    pair = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2 or not all(is_integer(side, 1, MAX_SIZE) for side in pair):
        rule = f"a side in pixels, 1 to {MAX_SIZE}, or (height, width)"
        raise _refusal("size", rule, size, "224, or (224, 320)")
    return int(pair[0]), int(pair[1])


def check_integer(name: str, value: Any, least: int, most: int = 2**31 - 1) -> None:
    """Raise unless a value is an integer from `least` to `most`."""
    if not is_integer(value, least, most):
        rule = f"an integer from {least} to {most}"
        raise _refusal(name, rule, value, f"{name}={max(least, 1)}")


def check_number(name: str, value: Any, above: float = -math.inf) -> float:
    """Return a finite number above a bound."""
    if not is_number(value) or value <= above:
        rule = "a number" if above == -math.inf else f"a number above {above:g}"
        raise _refusal(name, rule, value, f"{name}=0.5")
    return float(value)


def check_between(name: str, value: Any, least: float, most: float) -> float:
    """Return a number from `least` to `most`."""
    if not is_number(value) or not least <= value <= most:
        rule = f"a number from {least:g} to {most:g}"
        raise _refusal(name, rule, value, f"{name}={most / 2:g}")
    return float(value)


def check_numbers(name: str, value: Any, above: float = -math.inf) -> tuple[float, ...]:
    """Return the numbers of an argument that is one number or a tuple of them."""
    values = value if isinstance(value, tuple | list) and value else (value,)
    return tuple(check_number(name, each, above) for each in values)


def check_range(name: str, value: Any, most: float = math.inf) -> tuple[float, float]:
    """Return (low, high), with 0 < low <= high <= most."""
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or not all(map(is_number, pair)) or not 0 < pair[0] <= pair[1] <= most:
        rule = f"(low, high) with 0 < low <= high <= {most:g}"
        raise _refusal(name, rule, value, f"{name}=(0.5, 1.0)")
    return float(pair[0]), float(pair[1])


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise unless a value is one of some choices, and of their type."""
    if value not in choices or type(value) is not type(choices[0]):
        rule = f"one of {', '.join(map(repr, choices))}"
        raise _refusal(name, rule, value, f"{name}={choices[0]!r}")


def check_flag(name: str, value: Any) -> None:
    """Raise unless a value is True or False."""
    check_choice(name, value, (True, False))


def check_name(name: str, value: Any) -> None:
    """Raise unless a value can name a feature."""
    if not is_feature_name(value):
        rule = "the name of a feature, or the tuple of its keys"
        raise _refusal(name, rule, value, "'image', or 'objects/bbox'")


def check_names(name: str, value: Any, least: int = 0) -> None:
    """Raise unless a value is a tuple of at least `least` names of features."""
    if not isinstance(value, tuple | list) or len(value) < least:
        raise _refusal(name, "a tuple of feature names", value, "('image',)")
    for each in value:
        check_name(name, each)


def check_function(owner: str, value: Any) -> None:
    """Raise unless a value can be called."""
    if not callable(value):
        raise ConfigError(
            f"{owner} takes a TensorFlow function; got {value!r}. "
            "Pass the function itself, not its result."
        )


def _refusal(name: str, rule: str, value: Any, example: str) -> ConfigError:
    return ConfigError(f"{name} must be {rule}; got {value!r}. Write {example}.")

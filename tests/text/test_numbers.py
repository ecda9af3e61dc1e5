# SPDX-License-Identifier: Apache-2.0
"""Integers and numbers of Python and NumPy count; bools, NaN and infinity do not."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tfjax_batches.text.numbers import is_integer, is_number


@pytest.mark.parametrize("value", [0, -3, 2**80, np.int8(3), np.uint64(2**64 - 1)])
def test_is_integer_takes_integers_of_python_and_numpy(value: Any) -> None:
    assert is_integer(value)
    assert is_number(value)


@pytest.mark.parametrize("value", [True, np.bool_(1), 3.0, np.float32(3), "3", None, Fraction(3)])
def test_is_integer_takes_nothing_else(value: Any) -> None:
    assert not is_integer(value)


def test_is_integer_bounds_belong_to_the_range() -> None:
    assert [is_integer(n, 1, 3) for n in range(5)] == [False, True, True, True, False]
    assert not is_integer(np.uint8(0), least=1)
    assert not is_integer(np.uint64(2**64 - 1), most=2**63 - 1)


@pytest.mark.parametrize("value", [0.5, np.float32(-1), np.float64(1e300), Fraction(1, 3)])
def test_is_number_takes_finite_numbers(value: Any) -> None:
    assert is_number(value)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, np.float32("inf"), True, np.bool_(0), "1", None, 2j]
)
def test_is_number_takes_nothing_else(value: Any) -> None:
    assert not is_number(value)

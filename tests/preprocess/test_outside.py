# SPDX-License-Identifier: Apache-2.0
"""Two snapshots differ just where something outside of the function has changed."""

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfjax_batches.preprocess.outside import snapshot

NUMBERS = [1, 2]
COUNT = 0
TABLE = np.zeros(3)


class Holder:
    """A callable with state, and a method."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def __call__(self, x: Any) -> Any:
        return x

    def method(self, x: Any) -> Any:
        return x


def helper(x: Any) -> Any:
    return x + len(NUMBERS)


def uses_numbers(x: Any) -> Any:
    return [x + number for number in NUMBERS]


def uses_helper(x: Any) -> Any:
    return helper(x)


def uses_table(x: Any) -> Any:
    return (lambda: x + TABLE + COUNT)()


def change_count() -> None:
    global COUNT
    COUNT += 1


def closure() -> tuple[Callable[..., Any], Callable[[], Any]]:
    seen: dict[str, int] = {}
    return (lambda x: (x, seen)), lambda: seen.update(a=len(seen))


def default() -> tuple[Callable[..., Any], Callable[[], Any]]:
    held: set[int] = set()

    def function(x: Any, *, held: set[int] = held) -> Any:
        return x, held

    return function, lambda: held.add(len(held))


def attribute(kind: str) -> tuple[Callable[..., Any], Callable[[], Any]]:
    holder = Holder()
    function = holder.method if kind == "method" else holder
    return function, lambda: holder.items.append(1)


def partial() -> tuple[Callable[..., Any], Callable[[], Any]]:
    items: list[int] = []
    return functools.partial(lambda items, x: x, items), lambda: items.append(1)


@pytest.mark.parametrize(
    "case",
    [
        lambda: (uses_numbers, lambda: NUMBERS.append(3)),
        lambda: (uses_numbers, lambda: NUMBERS.__setitem__(0, 7)),
        lambda: (uses_helper, lambda: NUMBERS.append(3)),
        lambda: (uses_table, lambda: TABLE.__setitem__(0, TABLE[0] + 1)),
        lambda: (uses_table, change_count),
        closure,
        default,
        partial,
        lambda: attribute("method"),
        lambda: attribute("callable"),
    ],
)
def test_snapshot_differs_once_what_the_function_uses_has_changed(
    case: Callable[[], tuple[Callable[..., Any], Callable[[], Any]]],
) -> None:
    function, change = case()
    before = snapshot(function)
    assert snapshot(function) == before
    change()
    assert snapshot(function) != before


def test_snapshot_passes_over_what_the_function_does_not_use() -> None:
    before = snapshot(uses_numbers)
    change_count()
    assert snapshot(uses_numbers) == before
    assert snapshot(len).keys() == {"random", "np.random"}


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_snapshot_differs_once_a_random_generator_for_all_was_drawn_from(
    draw: Callable[[], object],
) -> None:
    before = snapshot(draw)
    draw()
    assert snapshot(draw) != before

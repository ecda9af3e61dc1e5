# SPDX-License-Identifier: Apache-2.0
"""Every public function, method and op says what it takes, returns and raises."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tfjax_batches as tjb
import tfjax_batches.preprocess.ops
from tests.docstrings import missing_parts, missing_raises
from tfjax_batches.preprocess.ops.op_table import OPS

PASSED_ON = {
    "BatchIterator.__next__": {
        "FeatureError",
        "IteratorClosedError",
        "RecordError",
        "StopIteration",
        "TransformError",
    },
}
"""Errors of other functions that a caller must know of."""


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield (qualified name, function) of all that users call."""
    for name in tjb.__all__:
        value = getattr(tjb, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for member in dir(value):
                function = inspect.getattr_static(value, member)
                function = getattr(function, "__func__", function)  # of a class or static method
                is_public = not member.startswith("_") or member in ("__iter__", "__next__")
                if is_public and is_ours(function):
                    yield f"{name}.{member}", function


def is_ours(value: object) -> bool:
    return inspect.isfunction(value) and value.__module__.startswith("tfjax_batches.")


def public_properties() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in tjb.__all__:
        for member, value in inspect.getmembers(getattr(tjb, name)):
            if not member.startswith("_") and isinstance(value, property) and is_ours(value.fget):
                assert value.fget is not None
                yield f"{name}.{member}", value.fget


def cases(found: Iterator[tuple[str, Callable[..., Any]]]) -> list[Any]:
    return [pytest.param(name, function, id=name) for name, function in found]


@pytest.mark.parametrize(("name", "function"), cases(public_functions()))
def test_docstring_names_parameters_result_and_errors(
    name: str, function: Callable[..., Any]
) -> None:
    assert not missing_parts(function)
    raises = (inspect.getdoc(function) or "").partition("Raises:")[2]
    assert not [error for error in PASSED_ON.get(name, ()) if error not in raises]


@pytest.mark.parametrize(("name", "function"), cases(public_properties()))
def test_docstring_of_a_property_names_its_errors(name: str, function: Callable[..., Any]) -> None:
    assert inspect.getdoc(function), name
    assert not missing_raises(function)


@pytest.mark.parametrize("name", tjb.__all__)
def test_docstring_of_a_class_names_its_fields(name: str) -> None:
    value = getattr(tjb, name)
    doc = inspect.getdoc(value) or ""
    assert doc
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value) if not f.name.startswith("_")]
    else:
        fields = []
    assert not [each for each in fields if not re.search(rf"^ *{each}: ", doc, re.MULTILINE)]


@pytest.mark.parametrize("name", OPS)
def test_docstring_of_an_op_names_parameters_and_errors(name: str) -> None:
    """All of them return a transform, which none needs to say."""
    op = inspect.unwrap(OPS[name])
    assert not set(missing_parts(op)) - {"Returns"}
    assert "Raises:" in (inspect.getdoc(op) or "")


def complete(first: int, *rest: int) -> int:
    """Add numbers.

    Args:
        first: A number.
        *rest: More of them.

    Returns:
        Their sum.

    Raises:
        ValueError: There is only one.
        OSError: Never; it comes from a variable.
    """
    if not rest:
        raise ValueError("one")
    return first + sum(rest)


def without_args(first: int, second: int) -> None:
    """Do nothing.

    Args:
        first: A number that is added to second: the other.
    """


def without_returns() -> int:
    """Count."""
    return 1


def return_in_summary() -> int:
    """Return a number."""
    return 1


def without_yields() -> Iterator[int]:
    """Count."""
    yield 1


def without_raises(error: Exception) -> None:
    """Fail.

    Args:
        error: What to raise, a ValueError: in the wrong section.

    Raises:
        TypeError: Not raised.
    """

    def inner() -> int:
        raise KeyError("is of the inner function")

    if str(inner):
        raise ValueError("x")
    try:
        raise error
    except OSError:
        raise


def without_any_raises(error: Exception) -> None:
    """Fail.

    Args:
        error: What to raise.
    """
    raise error


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        (complete, []),
        (without_args, ["Args: second"]),
        (without_returns, ["Returns"]),
        (return_in_summary, []),
        (without_yields, ["Yields"]),
        (without_raises, ["Raises: ValueError"]),
        (without_any_raises, ["Raises: error"]),
    ],
)
def test_check_finds_what_a_docstring_lacks(
    function: Callable[..., Any], missing: list[str]
) -> None:
    assert missing_parts(function) == missing

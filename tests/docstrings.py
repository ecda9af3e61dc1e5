# SPDX-License-Identifier: Apache-2.0
"""Checks that a docstring in Google style says what a function takes, returns and raises."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any


def missing_parts(function: Callable[..., Any]) -> list[str]:
    """Return what a function's docstring does not say, one entry for each omission.

    Each parameter is named under Args, and each class of error that the function itself raises
    under Raises. A function that returns a value has Returns or Yields, unless its summary begins
    with that word, as Google's style guide allows.
    """
    function = inspect.unwrap(function)
    doc = inspect.getdoc(function) or ""
    missing = [
        f"Args: {name}"
        for name in inspect.signature(function).parameters
        if name not in ("self", "cls") and not _names(_section(doc, "Args"), rf"\*{{0,2}}{name}")
    ]
    body = list(_own_statements(_definition(function)))
    returns = any(isinstance(node, ast.Return) and _is_value(node.value) for node in body)
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in body)
    for section, needed in (("Returns", returns and not yields), ("Yields", yields)):
        if needed and not (_section(doc, section) or re.match(rf"{section[:-1]}s?\b", doc)):
            missing.append(section)
    return missing + missing_raises(function)


def missing_raises(function: Callable[..., Any]) -> list[str]:
    """Return the errors that a function itself raises and its docstring does not name."""
    section = _section(inspect.getdoc(function) or "", "Raises")
    missing = []
    for node in _own_statements(_definition(inspect.unwrap(function))):
        if not isinstance(node, ast.Raise) or node.exc is None:
            continue
        name = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
        name = name.rpartition(".")[2]
        # Errors that a variable holds may be of any class.
        if not (_names(section, name) if name[0].isupper() else section):
            missing.append(f"Raises: {name}")
    return list(dict.fromkeys(missing))


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _own_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a function, without those of functions inside of it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield child
            yield from _own_statements(child)


def _is_value(value: ast.expr | None) -> bool:
    return value is not None and not (isinstance(value, ast.Constant) and value.value is None)


def _section(doc: str, name: str) -> str:
    """Return the lines of a section, or an empty text."""
    found = re.search(rf"^{name}:\n((?:[ \n].*\n?|\n)*)", doc, re.MULTILINE)
    return found[1] if found else ""


def _names(section: str, pattern: str) -> bool:
    """Return whether an entry of a section, at its first indentation, is for this name."""
    return re.search(rf"^    {pattern}(, [\w*, ]+)?: ", section, re.MULTILINE) is not None

# SPDX-License-Identifier: Apache-2.0
"""What a Python function refers to outside of itself, as far as calling it may change that."""

import dis
import functools
import random
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# Larger arrays count by which they are: tables, which nobody counts in.
_COMPARED_BYTES = 2**24
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


def snapshot(function: Callable[..., Any]) -> dict[str, Any]:
    """Return name → what it stands for, of closures, globals and attributes that may change.

    Containers count by what is in them, arrays by their bytes. Two snapshots are equal unless
    something was assigned, put in or taken out in between. The random generators that Python and
    NumPy have for all are outside of every function.
    """
    return {
        **{name: _fix(value) for name, value in _references(function, set())},
        "random": random.getstate(),
        "np.random": repr(np.random.get_state(legacy=False)),  # noqa: NPY002
    }


def _references(function: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield what a callable and the functions of its own package refer to, by name."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        yield from _references(function.func, seen)
        yield from ((f"{number}", value) for number, value in enumerate(function.args))
        yield from function.keywords.items()
        return
    if isinstance(function, types.MethodType):
        yield from _attributes(function.__self__)
        function = function.__func__
    elif hasattr(function, "python_function"):  # a tf.function
        function = function.python_function
    elif not isinstance(function, types.FunctionType):
        yield from _attributes(function)
        function = vars(type(function)).get("__call__")
    if not isinstance(function, types.FunctionType):
        return
    for name, value in _names_used(function):
        if isinstance(value, types.FunctionType):
            if value.__module__.split(".")[0] == function.__module__.split(".")[0]:
                yield from ((f"{name}.{each}", v) for each, v in _references(value, seen))
        else:
            yield name, value


def _names_used(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the closures, the globals and the defaults of one function."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    names = _global_names(function.__code__)
    yield from ((n, function.__globals__[n]) for n in sorted(names) if n in function.__globals__)
    yield from ((f"default {number}", v) for number, v in enumerate(function.__defaults__ or ()))
    yield from (function.__kwdefaults__ or {}).items()


def _global_names(code: types.CodeType) -> set[str]:
    names = {i.argval for i in dis.get_instructions(code) if i.opname.endswith("_GLOBAL")}
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return names.union(*map(_global_names, inner))


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(owner, "__dict__", {}).items()


def _fix(value: Any) -> Any:
    """Return something that stays as it is and differs once `value` has changed."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray) and value.nbytes <= _COMPARED_BYTES:
        return value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(_fix_item(key), _fix_item(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_fix_item(item) for item in value]
    if isinstance(value, set | frozenset):
        return {_fix_item(item) for item in value}
    return id(value)


def _fix_item(value: Any) -> Any:
    return value if isinstance(value, _PLAIN) else id(value)

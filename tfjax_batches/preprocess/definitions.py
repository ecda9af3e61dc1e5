# SPDX-License-Identifier: Apache-2.0
"""Whether two functions are one, defined again: as in a notebook cell that runs twice."""

import types
from typing import Any

_LITERALS = (bool, int, float, complex, str, bytes, types.NoneType)


def is_defined_again(old: Any, new: Any) -> bool:
    """Return whether `new` is `old`, or the same name of the same module once more.

    Names of lambdas and of functions within functions tell nothing: these also have the same code,
    defaults, and values of the function around them.
    """
    if old is new:
        return True
    if origin_of(old) != origin_of(new):
        return False
    if "<l" not in origin_of(new):  # neither <lambda> nor <locals>
        return True
    if not isinstance(old, types.FunctionType) or not isinstance(new, types.FunctionType):
        return False
    return _are_same(_parts(old), _parts(new))


def origin_of(function: Any) -> str:
    """Return module and name."""
    name = getattr(function, "__qualname__", repr(function))
    return f"{getattr(function, '__module__', '?')}.{name}"


def _parts(function: types.FunctionType) -> tuple[Any, ...]:
    defaults = tuple(sorted((function.__kwdefaults__ or {}).items()))
    cells = tuple(_contents(cell) for cell in function.__closure__ or ())
    return (_code(function.__code__), function.__defaults__ or (), defaults, cells)


def _code(code: types.CodeType) -> tuple[Any, ...]:
    """Return what code does, wherever its lines stand."""
    constants = tuple(_code(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return (code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants)


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _are_same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, tuple):
        return len(old) == len(new) and all(map(_are_same, old, new))
    return type(old) in _LITERALS and bool(old == new)

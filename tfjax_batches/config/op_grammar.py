# SPDX-License-Identifier: Apache-2.0
"""The grammar of `BatchConfig.preprocess`: ops joined by `|`, with literal arguments.

    decode_random_crop(224) | flip_lr | value_range(-1, 1) | keep('image', 'label')

An op string is parsed as a Python expression and never evaluated: no name in it is looked up,
called or imported here. This module knows no op and no framework.
"""

import ast
import dataclasses
from typing import Any

from tfjax_batches.errors import ConfigError
from tfjax_batches.text.numbers import is_integer

_SHOWN = 76  # characters of an op string in a message

_RULE = (
    "An op string, such as preprocess, must be ops joined by |, each a name or a name with literal "
    "arguments"
)
_EXAMPLE = "Write it like \"decode_random_crop(224)|keep('image', 'label')\"."
_LITERALS = (
    "Arguments must be literals: numbers (integers of at most 64 bits), quoted strings, True, "
    "False, None, and tuples, lists or dicts (with strings as keys) of them"
)


@dataclasses.dataclass(frozen=True, slots=True)
class OpCall:
    """One op of an op string, with its arguments; equal to any other spelling of the same call.

    Attributes:
        name: The op's name; there may be no such op.
        args: Literals given by position.
        kwargs: Literals given by name.
        place: Two lines that show where the op string has it, for messages.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    place: str = dataclasses.field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        """Return the call in its usual spelling.

        Example:
            >>> str(OpCall("value_range", (-1,), {"hi": 1})), str(OpCall("flip_lr"))
            ('value_range(-1, hi=1)', 'flip_lr')
        """
        arguments = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())]
        return f"{self.name}({', '.join(arguments)})" if arguments else self.name


def parse_ops(ops: str) -> tuple[OpCall, ...]:
    """Return the calls of an op string in order; none if it is blank.

    Raises:
        ConfigError: The text does not follow the grammar. The message shows the place.

    Example:
        >>> [(call.name, call.args) for call in parse_ops("flip_lr | cast('float32')")]
        [('flip_lr', ()), ('cast', ('float32',))]
    """
    line = "".join(" " if character.isspace() else character for character in ops).strip()
    return tuple(_read_call(line, node) for node in _split(_parse(line))) if line else ()


def _parse(line: str) -> ast.expr:
    try:
        tree = ast.parse(line, mode="eval").body
    except SyntaxError as error:
        place = error.offset - 1 if error.offset else len(line)
        raise _error(line, place, f"{_RULE}; Python reports: {error.msg}", _EXAMPLE) from error
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; deep nesting
        raise _error(line, 0, f"{_RULE}; Python cannot parse this", _EXAMPLE) from error
    if b"#" in line.encode()[tree.end_col_offset :]:
        raise _error(line, line.index("#"), f"{_RULE}; got a comment", "Remove it.")
    return tree


def _split(tree: ast.expr) -> list[ast.expr]:
    """Return the operands of all `|` outside of calls, from left to right."""
    operands, pending = [], [tree]
    while pending:  # a loop, since long chains nest too deeply for recursion
        node = pending.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            pending += [node.right, node.left]
        else:
            operands.append(node)
    return operands


def _read_call(line: str, node: ast.expr) -> OpCall:
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    if not isinstance(call.func, ast.Name):
        raise _error_at(line, node, f"{_RULE}; this is neither", _EXAMPLE)
    kwargs: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in kwargs:
            rule = "An argument must be given once, and not by **"
            raise _error_at(line, keyword, rule, "Write name=value.")
        kwargs[keyword.arg] = _read_literal(line, keyword.value)
    return OpCall(
        name=call.func.id,
        args=tuple(_read_literal(line, argument) for argument in call.args),
        kwargs=kwargs,
        place=_point_at(line, _offset(line, node)),
    )


def _read_literal(line: str, node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
        if _is_plain(value):
            return value
    except (ValueError, TypeError, RecursionError, MemoryError):
        pass
    fix = f"Put {node.id!r} in quotes." if isinstance(node, ast.Name) else "Write the value itself."
    raise _error_at(line, node, _LITERALS, fix)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if is_integer(value):
        return bool(value.bit_length() <= 64)
    return value is None or isinstance(value, bool | float | str)


def _offset(line: str, node: ast.expr | ast.keyword) -> int:
    """Return how many characters stand before a node; `ast` counts bytes."""
    return len(line.encode()[: node.col_offset].decode())


def _point_at(line: str, offset: int) -> str:
    """Return two lines: the text around a place, and a caret below it."""
    first = max(0, min(offset - _SHOWN // 2, len(line) - _SHOWN))
    shown = "".join(c if c.isprintable() else " " for c in line[first : first + _SHOWN])
    return f"  {shown}\n  {' ' * (offset - first)}^"


def _error_at(line: str, node: ast.expr | ast.keyword, rule: str, fix: str) -> ConfigError:
    return _error(line, _offset(line, node), rule, fix)


def _error(line: str, offset: int, rule: str, fix: str) -> ConfigError:
    return ConfigError(f"{rule}:\n{_point_at(line, offset)}\n{fix}")

# SPDX-License-Identifier: Apache-2.0
"""The grammar of `BatchConfig.preprocess`: names of ops with literal arguments, joined by `|`.

    decode_random_crop(224) | flip_lr | value_range(-1, 1) | keep('image', 'label')

A spec is read as Python reads an expression, and never run: nothing in it is looked up, called or
imported here. Knows no op and no framework.
"""

import ast
import dataclasses
import warnings
from typing import Any

from tfjax_batches.errors import ConfigError

MAX_CHARACTERS = 10_000
_LINE = 76  # characters of a spec that a message shows

_GRAMMAR = "preprocess is ops joined by |, each a name or a name with literal arguments"
_EXAMPLE = "Write it as in \"decode_random_crop(224)|keep('image', 'label')\"."
_LITERALS = "Write numbers, quoted strings, True, False, None, and tuples, lists or dicts of them."


@dataclasses.dataclass(frozen=True, slots=True)
class OpCall:
    """One op of a spec, with its arguments.

    Attributes:
        name: Of the op; it may not exist.
        args: Literals given by position.
        kwargs: Literals given by name.
        text: How the spec has it, such as `value_range(-1, 1)`.
        offset: Characters of the spec before it.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    text: str
    offset: int

    def as_json(self) -> list[Any]:
        """Return `[name, args, kwargs]`, equal for equal calls however they are written."""
        return [self.name, list(self.args), dict(self.kwargs)]


def parse_ops(spec: str) -> tuple[OpCall, ...]:
    """Return the ops that a spec names, in order; none where it is blank.

    Raises:
        ConfigError: It is no spec; shows the place.

    Example:
        >>> [(call.name, call.args) for call in parse_ops("flip_lr | cast('float32')")]
        [('flip_lr', ()), ('cast', ('float32',))]
    """
    if len(spec) > MAX_CHARACTERS:
        raise ConfigError(
            f"preprocess holds at most {MAX_CHARACTERS} characters; got {len(spec)}. "
            "Put several ops into one of your own, with register_op."
        )
    # One line, of as many characters: places stay what they are.
    line = "".join(" " if character in "\t\n\v\f\r" else character for character in spec)
    if not line.strip():
        return ()
    tree = _parse_line(line)
    return tuple(_Reader(spec, line).read_call(node) for node in _split(tree))


def point_at(spec: str, offset: int) -> str:
    """Return two lines that show a place in a spec: the text around it, and a caret below.

    Example:
        >>> print(point_at("flip_lr|cost", 8))
          flip_lr|cost
                  ^
    """
    offset = min(max(offset, 0), len(spec))
    shown = "".join(character if character.isprintable() else " " for character in spec)
    first = max(0, min(offset - _LINE // 2, len(spec) - _LINE))
    before = "…" if first else ""
    after = "…" if first + _LINE < len(spec) else ""
    caret = " " * (len(before) + offset - first)
    return f"  {before}{shown[first : first + _LINE]}{after}\n  {caret}^"


def _parse_line(line: str) -> ast.expr:
    """Return the expression that a line is, all of it."""
    indent = len(line) - len(line.lstrip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an escape that is none, in a string
            tree = ast.parse(line[indent:], mode="eval").body
    except SyntaxError as error:
        # Python gives none, or 0, where the text ends too early.
        place = indent + error.offset - 1 if error.offset else len(line)
        raise _fault(line, place, f"{_GRAMMAR}; Python reads: {error.msg}", _EXAMPLE) from error
    except (RecursionError, MemoryError) as error:
        raise _fault(line, 0, f"{_GRAMMAR}; this is nested too deeply", _EXAMPLE) from error
    except ValueError as error:  # a null byte, half of a surrogate pair
        place = next((i for i, c in enumerate(line) if not c.isprintable()), 0)
        raise _fault(line, place, f"{_GRAMMAR}; {error}", _EXAMPLE) from error
    end = indent + _characters(line[indent:], tree.end_col_offset)
    if rest := line[end:].strip(" )"):
        place = line.index(rest, end)
        raise _fault(line, place, f"{_GRAMMAR}; a comment hides the rest", "Leave it out.")
    return tree


def _split(tree: ast.expr) -> list[ast.expr]:
    """Return the operands of all `|` that are not within a call, from left to right."""
    operands, pending = [], [tree]
    while pending:  # no recursion: a long chain nests deeply
        node = pending.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            pending += [node.right, node.left]
        else:
            operands.append(node)
    return operands


class _Reader:
    """Turns the nodes of one spec into calls.

    Args:
        spec: As it was given.
        line: The same on one line.
    """

    def __init__(self, spec: str, line: str) -> None:
        self._spec = spec
        self._line = line
        self._indent = len(line) - len(line.lstrip())

    def read_call(self, node: ast.expr) -> OpCall:
        """Return the call that a node is."""
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        if not isinstance(call.func, ast.Name):
            raise self._fault_at(node, f"{_GRAMMAR}; this is neither", _EXAMPLE)
        kwargs: dict[str, Any] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise self._fault_at(keyword, "Arguments are literals", "Write them out.")
            if keyword.arg in kwargs:
                raise self._fault_at(keyword, "An argument is given once", "Leave out one.")
            kwargs[keyword.arg] = self._read_literal(keyword.value)
        offset, end = self._place(node), self._end(node)
        return OpCall(
            name=call.func.id,
            args=tuple(self._read_literal(argument) for argument in call.args),
            kwargs=kwargs,
            text=self._line[offset:end],
            offset=offset,
        )

    def _read_literal(self, node: ast.expr) -> Any:
        for part in ast.walk(node):
            if fault := self._literal_fault(part):
                raise self._fault_at(part, f"Arguments are literals; {fault}", _LITERALS)
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError, MemoryError) as error:
            raise self._fault_at(node, "Arguments are literals; this is none", _LITERALS) from error

    def _literal_fault(self, node: ast.AST) -> str | None:
        """Return why a part of an argument can be no part of a literal."""
        if isinstance(node, ast.Constant):
            value = node.value
            if value is not None and type(value) not in (bool, int, float, str):
                return f"this is {type(value).__name__}"
            if isinstance(value, int) and value.bit_length() > 63:
                return "this integer has more than 64 bits"
            if isinstance(value, str) and "\n" in self._spec[self._place(node) : self._end(node)]:
                return "this string holds a line break, which is written \\n"
            return None
        if isinstance(node, ast.Name):
            return f"{node.id!r} is a name, without quotes"
        parts = ast.Tuple | ast.List | ast.Dict | ast.UnaryOp
        if isinstance(node, ast.expr) and not isinstance(node, parts):
            return "this is to be computed"
        return None

    def _place(self, node: Any) -> int:
        return self._indent + _characters(self._line[self._indent :], node.col_offset)

    def _end(self, node: Any) -> int:
        return self._indent + _characters(self._line[self._indent :], node.end_col_offset)

    def _fault_at(self, node: Any, rule: str, mend: str) -> ConfigError:
        return _fault(self._line, self._place(node), rule, mend)


def _characters(line: str, utf8_bytes: int | None) -> int:
    """Return how many characters so many bytes are; `ast` counts bytes."""
    return len(line.encode()[:utf8_bytes].decode(errors="ignore"))


def _fault(line: str, place: int, rule: str, mend: str) -> ConfigError:
    return ConfigError(f"{rule}:\n{point_at(line, place)}\n{mend}")

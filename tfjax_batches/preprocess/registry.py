# SPDX-License-Identifier: Apache-2.0
"""From op strings to transforms: `op` makes one, `register_op` adds an op of a user."""

import dataclasses
import inspect
import keyword
from collections.abc import Callable
from typing import Any, overload

from tfjax_batches.config.op_grammar import OpCall, parse_ops
from tfjax_batches.errors import BatchesError, ConfigError, nearest_hint
from tfjax_batches.preprocess import ops as library_ops  # fills the table
from tfjax_batches.preprocess.ops.foreign_names import ops_for
from tfjax_batches.preprocess.ops.op_table import OPS, Op
from tfjax_batches.preprocess.transforms import MapBatches, MapExamples, Transform

OPS_VERSION = 1
"""Raised whenever an op of the library would return other values: saved runs resume by them."""

_LIBRARY = library_ops.__name__


@overload
def register_op(op: Op, *, name: str | None = None) -> Op: ...
@overload
def register_op(op: None = None, *, name: str | None = None) -> Callable[[Op], Op]: ...
def register_op(op: Op | None = None, *, name: str | None = None) -> Op | Callable[[Op], Op]:
    """Make an op of your own known to `BatchConfig.preprocess`; a decorator.

    A function replaces one of the same module and qualified name, so a notebook cell may run twice.

    Args:
        op: A function of literals that returns `MapExamples` or `MapBatches`. The arguments in an
            op string must fit its signature.
        name: The op's name. None: that of the function.

    Returns:
        The function, unchanged.

    Raises:
        ConfigError: `op` is not a function, or the name is not an identifier or is taken.

    Example::

        @tjb.register_op
        def invert(key="image"):
            return tjb.MapBatches(lambda batch: {**batch, key: 255 - batch[key]})

        tjb.build("mnist", preprocess="invert|value_range(-1, 1)", …)
    """
    if op is None:
        return lambda op: register_op(op, name=name)
    known_as: str = getattr(op, "__name__", "") if name is None else name
    is_name = isinstance(known_as, str) and known_as.isidentifier()
    if not callable(op) or not is_name or keyword.iskeyword(known_as):
        raise ConfigError(
            "register_op takes a function, with an identifier for a name; got "
            f"{op!r} with the name {known_as!r}. Write @register_op(name='invert') above it."
        )
    taken = OPS.get(known_as, op)
    if taken is not op and (_origin(taken) != _origin(op) or "<lambda>" in _origin(op)):
        raise ConfigError(
            f"The name of an op must be free; {known_as!r} is {_origin(taken)}, and {_origin(op)} "
            f"is another function. Choose another, as in @register_op(name='my_{known_as}')."
        )
    OPS[known_as] = op
    return op


def op(call: str) -> Transform:
    """Return the transform of one op, to use among transforms of your own.

    Args:
        call: The op as in `BatchConfig.preprocess`, such as `"pad(128)"`.

    Returns:
        A transform whose name is the call.

    Raises:
        ConfigError: `call` is not one op that exists, with arguments that it takes.

    Example::

        transforms = [tjb.MapExamples(tokenize), tjb.op("pad(128)")]
        tjb.build("imdb_reviews", transforms=transforms, …)
    """
    calls = parse_ops(call) if isinstance(call, str) else ()
    if len(calls) != 1:
        several = ", ".join(f"tjb.op({str(each)!r})" for each in calls) or "tjb.op('pad(128)')"
        raise ConfigError(
            f"op takes one op as a string; got {call!r}. Write transforms=[{several}]."
        )
    return _build_transform(calls[0])


def build_transforms(ops: str) -> tuple[Transform, ...]:
    """Return the transforms of an op string in order, each named by its call.

    Example:
        >>> [transform.name for transform in build_transforms("flip_lr | value_range( -1,1 )")]
        ['flip_lr', 'value_range(-1, 1)']
    """
    return tuple(_build_transform(call) for call in parse_ops(ops))


def bind_call(call: OpCall) -> list[Any]:
    """Return `[name, {parameter: value}]` of a call, equal for every spelling of it."""
    bound = inspect.signature(OPS[call.name]).bind(*call.args, **call.kwargs)
    return [call.name, bound.arguments]


def is_library_op(name: str) -> bool:
    """Return whether an op of that name is one of this library, and not a user's own."""
    return getattr(OPS.get(name), "__module__", "").startswith(f"{_LIBRARY}.")


def describe_ops() -> str:
    """Return two lines for each op: its signature, and the first line of its docstring."""
    return "\n".join(
        f"{_signature(name)}\n    {(inspect.getdoc(op) or 'Undocumented.').splitlines()[0]}"
        for name, op in sorted(OPS.items())
    )


def _build_transform(call: OpCall) -> Transform:
    op = OPS.get(call.name)
    if op is None:
        rule = (
            f"An op string, such as preprocess, must name ops that exist; there is no {call.name!r}"
        )
        known = ops_for(call.name)
        raise _error(call, rule, f"Write {known}." if known else nearest_hint(call.name, OPS))
    try:
        transform = op(*call.args, **call.kwargs)
    # Whatever a user's function raises.
    except Exception as error:
        kind = "" if isinstance(error, BatchesError) else f"{type(error).__name__}: "
        reason = f"{kind}{error}\nIts signature is {_signature(call.name)}."
        raise _error(call, f"{call.name} refuses these arguments", reason) from error
    if not isinstance(transform, MapExamples | MapBatches):
        rule = f"An op must return MapExamples or MapBatches; {call.name} returned {transform!r}"
        raise _error(call, rule, f"Change {_origin(op)}.")
    return dataclasses.replace(transform, name=str(call))


def _signature(name: str) -> str:
    signature = inspect.signature(OPS[name])
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"{name}{inspect.Signature(bare)}"


def _origin(function: Any) -> str:
    """Return module and qualified name."""
    name = getattr(function, "__qualname__", repr(function))
    return f"{getattr(function, '__module__', '?')}.{name}"


def _error(call: OpCall, rule: str, fix: str) -> ConfigError:
    return ConfigError(f"{rule}:\n{call.place}\n{fix}")

# SPDX-License-Identifier: Apache-2.0
"""Ops by name: those of the library and the user's own, and what a spec makes of them.

Owns the one table that programs add to. A spec can name what stands in it and nothing else.
"""

import dataclasses
import inspect
import keyword
from collections.abc import Callable
from typing import overload

import tensorflow as tf

from tfjax_batches.config.op_grammar import OpCall, parse_ops, point_at
from tfjax_batches.errors import BatchesError, ConfigError, nearest_hint
from tfjax_batches.preprocess.definitions import is_defined_again, origin_of
from tfjax_batches.preprocess.ops import OPS
from tfjax_batches.preprocess.transforms import MapBatches, MapExamples, Transform

Op = Callable[..., Transform]

OPS_VERSION = 1
"""Raised whenever an op of the library would return other values: saved runs resume by them."""

_OPS: dict[str, Op] = {op.__name__: op for op in OPS}


@overload
def register_op(op: Op, *, name: str | None = None) -> Op: ...
@overload
def register_op(op: None = None, *, name: str | None = None) -> Callable[[Op], Op]: ...
def register_op(op: Op | None = None, *, name: str | None = None) -> Op | Callable[[Op], Op]:
    """Let preprocessing specs name an op of your own; a decorator.

    Args:
        op: A function of literals that returns `MapExamples` or `MapBatches`. Its signature is
            what specs are checked against.
        name: In specs. None: the function's own.

    Raises:
        ConfigError: It is no function, or the name is no identifier, or taken. The same function
            again, as in a notebook cell that runs twice, takes the place of the old one.

    Example::

        @tjb.register_op
        def invert(key="image"):
            return tjb.MapBatches(lambda batch: {**batch, key: 255 - batch[key]})

        tjb.build("mnist", preprocess="invert|value_range(-1, 1)", …)
    """
    if op is None:
        return lambda op: register_op(op, name=name)
    if not callable(op) or not _has_signature(op):
        raise ConfigError(
            "register_op takes a function of literals that returns MapExamples or MapBatches; "
            f"got {op!r}. Write @register_op above a function of Python."
        )
    known_as = getattr(op, "__name__", None) if name is None else name
    if not isinstance(known_as, str) or not known_as.isidentifier() or keyword.iskeyword(known_as):
        raise ConfigError(
            f"The name of an op is an identifier and no word of Python's own; got {known_as!r}. "
            "Give another, as in @register_op(name='invert')."
        )
    taken = _OPS.get(known_as)
    if taken is not None and not is_defined_again(taken, op):
        raise ConfigError(
            f"An op has a name of its own; {known_as!r} is {origin_of(taken)}, and would be "
            f"{origin_of(op)}. Give another, as in @register_op(name='my_{known_as}')."
        )
    _OPS[known_as] = op
    return op


def build_transforms(spec: str) -> tuple[Transform, ...]:
    """Return the transforms that a spec names, in order, each named as the spec has it.

    Raises:
        ConfigError: It is no spec, names no op, or gives an op what it cannot take; shows the
            place.

    Example:
        >>> [transform.name for transform in build_transforms("flip_lr|value_range(-1, 1)")]
        ['flip_lr', 'value_range(-1, 1)']
    """
    return tuple(_build_transform(spec, call) for call in parse_ops(spec))


def is_library_op(name: str) -> bool:
    """Return whether a name stands for an op of this library, and not for one of the user's."""
    return _OPS.get(name) in OPS


def describe_ops() -> str:
    """Return a line for each op that a spec can name: its signature, and what it does."""
    return "\n".join(
        f"{_signature(name)}\n    {(inspect.getdoc(op) or 'Undocumented.').splitlines()[0]}"
        for name, op in sorted(_OPS.items())
    )


def _build_transform(spec: str, call: OpCall) -> Transform:
    op = _OPS.get(call.name)
    if op is None:
        raise _fault(
            spec,
            call,
            f"preprocess names ops; there is no {call.name!r}",
            nearest_hint(call.name, _OPS),
        )
    try:
        inspect.signature(op).bind(*call.args, **call.kwargs)
    except TypeError as error:
        mend = f"Write it as in {_signature(call.name)}."
        raise _fault(spec, call, f"{call.name} has other arguments: {error}", mend) from error
    try:
        transform = op(*call.args, **call.kwargs)
    except BatchesError as error:
        raise _fault(spec, call, f"{call.name} cannot take these arguments", str(error)) from error
    except Exception as error:  # whatever the function of a user raises
        reason = f"{type(error).__name__}: {error}"
        raise _fault(spec, call, f"{call.name} cannot take these arguments", reason) from error
    if not isinstance(transform, MapExamples | MapBatches):
        raise _fault(
            spec,
            call,
            f"An op returns MapExamples or MapBatches; {call.name} returned {transform!r}",
            f"Mend {origin_of(op)}.",
        )
    if op in OPS:
        # Written without AutoGraph, which would hide our errors in its own and trace longer.
        transform = dataclasses.replace(
            transform, fn=tf.autograph.experimental.do_not_convert(transform.fn)
        )
    return dataclasses.replace(transform, name=call.text)


def _has_signature(op: Op) -> bool:
    try:
        inspect.signature(op)
    except (TypeError, ValueError):  # some of those in C have none
        return False
    return True


def _signature(name: str) -> str:
    signature = inspect.signature(_OPS[name])
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"{name}{inspect.Signature(bare)}"


def _fault(spec: str, call: OpCall, rule: str, mend: str) -> ConfigError:
    return ConfigError(f"{rule}:\n{point_at(spec, call.offset)}\n{mend}")

# SPDX-License-Identifier: Apache-2.0
"""The table of ops by name. `@op` above a function adds it."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjax_batches.preprocess.transforms import Transform

Op = Callable[..., Transform]
"""A function of literals that returns a transform."""

OPS: dict[str, Op] = {}


def op(function: Op) -> Op:
    """Add a function of this library to the table of ops, under its own name; a decorator.

    The functions of its transforms must not need AutoGraph, which makes tracing slower and wraps
    our errors in its own.
    """

    @functools.wraps(function)
    def build(*args: Any, **kwargs: Any) -> Transform:
        transform = function(*args, **kwargs)
        plain = tf.autograph.experimental.do_not_convert(transform.fn)
        return dataclasses.replace(transform, fn=plain)

    OPS[function.__name__] = build
    return build

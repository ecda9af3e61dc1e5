# SPDX-License-Identifier: Apache-2.0
"""The two kinds of transform: one sees an example, the other a group of examples.

Both hold a TensorFlow function of nested dicts, nested like TFDS features. An op is a function of
literals that returns one of the two.
"""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from tfjax_batches.errors import ConfigError
from tfjax_batches.features.paths import Name
from tfjax_batches.preprocess.argument_checks import (
    check_flag,
    check_function,
    check_integer,
    check_names,
)


@dataclasses.dataclass(frozen=True, slots=True)
class MapExamples:
    """Applies a function to each example.

    Attributes:
        fn: `fn(example)`, or `fn(example, seed)` if `random`; returns a dict of features in place
            of the example. An example is a nested dict of tensors without a batch dim, with a
            `tf.RaggedTensor` for sequences of sequences. A seed is int32[2], for
            `tf.random.stateless_*`, made of (config.seed, epoch, example index, place in the
            chain).
        random: Whether `fn` takes a seed.
        encoded: Names of features that `fn` is given as stored bytes, one string each.
        name: For messages. None: the name of `fn`.

    Raises:
        ConfigError: A field has a wrong type, or `fn` does not take these arguments.
    """

    fn: Callable[..., Any]
    random: bool = False
    encoded: tuple[Name, ...] = ()
    name: str | None = None

    def __post_init__(self) -> None:
        _check_fields(self)


@dataclasses.dataclass(frozen=True, slots=True)
class MapBatches:
    """Applies a function to groups of examples: parts of a batch, a batch, or several batches.

    What a row becomes may depend on that row alone, or on the `row_multiple` rows that start at a
    multiple of it. How rows are grouped depends on processes and speed, and must not change any
    value.

    Attributes:
        fn: `fn(batch)`, or `fn(batch, seeds)` if `random`; returns a dict of features in place of
            the batch, with rows in the same order. A batch is a nested dict of tensors [n, ...],
            with a `tf.RaggedTensor` where sizes differ from example to example. Seeds are
            int32[n, 2], each as in `MapExamples`, and zeros on padding rows only. Padding rows
            hold the features of some example and become zeros after the last transform. A function
            that mixes rows must leave them out.
        random: Whether `fn` takes seeds.
        encoded: Names of features that `fn` is given as stored bytes, string[n].
        name: For messages. None: the name of `fn`.
        row_multiple: Rows of the global batch that are in one group, and on one process: from each
            multiple of it to the next. `n` is a multiple of it.

    Raises:
        ConfigError: A field has a wrong type, or `fn` does not take these arguments.
    """

    fn: Callable[..., Any]
    random: bool = False
    encoded: tuple[Name, ...] = ()
    name: str | None = None
    row_multiple: int = 1

    def __post_init__(self) -> None:
        _check_fields(self)
        check_integer("row_multiple", self.row_multiple, 1)


Transform = MapExamples | MapBatches


def _check_fields(transform: Transform) -> None:
    kind = type(transform).__name__
    check_flag("random", transform.random)
    check_names("encoded", transform.encoded)
    check_function(kind, transform.fn)
    given = ["features", "seed"][: 1 + transform.random]
    try:
        signature = inspect.signature(transform.fn)
        signature.bind(*given)
    except ValueError:  # some builtins have no signature
        return
    except TypeError:
        raise ConfigError(
            f"The function of a {kind} with random={transform.random} is called as "
            f"fn({', '.join(given)}); got fn{signature}. "
            f"Write random={not transform.random}, or change the function."
        ) from None

# SPDX-License-Identifier: Apache-2.0
"""The two kinds of transform: one sees an example, the other a group of them.

Both hold a TensorFlow function of nested dicts, as TFDS features nest. An op of a spec string is
a function of literals that returns one of the two.
"""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from tfjax_batches.errors import ConfigError
from tfjax_batches.preprocess.argument_checks import check_flag, check_path


@dataclasses.dataclass(frozen=True, slots=True)
class MapExamples:
    """Applies a function to each example.

    Attributes:
        fn: `fn(example)`, or `fn(example, seed)` where `random`; returns the example anew. An
            example is a nested dict of tensors without a batch dim, of `tf.RaggedTensor` for
            sequences of sequences. A seed is int32[2], for `tf.random.stateless_*`, made of
            (config.seed, epoch, example index, place in the chain).
        random: Give `fn` a seed.
        encoded: Features that `fn` is given as stored bytes, a string each, by path.
        name: For messages. None: that of `fn`.
    """

    fn: Callable[..., Any]
    random: bool = False
    encoded: tuple[str, ...] = ()
    name: str | None = None

    def __post_init__(self) -> None:
        _check_fields(self)


@dataclasses.dataclass(frozen=True, slots=True)
class MapBatches:
    """Applies a function to groups of examples, which may be parts of a batch, or several batches.

    What a row becomes may depend on that row alone, or on the `row_multiple` rows that start at a
    multiple of it: how rows are grouped changes with processes and speed, and must change no value.

    Attributes:
        fn: `fn(batch)`, or `fn(batch, seeds)` where `random`; returns the batch anew, with its
            rows in place. A batch is a nested dict of tensors [n, ...], of `tf.RaggedTensor` where
            sizes differ from example to example. Seeds are int32[n, 2], one of each example, as
            those of `MapExamples`; zeros on padding rows, and there alone. Padding rows hold the
            features of some example, and what `fn` makes of them is zeroed after the chain: only
            a function that mixes rows needs to look at them, or they would mix with real ones.
        random: Give `fn` seeds.
        encoded: Features that `fn` is given as stored bytes, string[n], by path.
        name: For messages. None: that of `fn`.
        row_multiple: Rows of the global batch that stand in one group, and on one process: those
            from each multiple of it to the next. `n` is a multiple of it.
    """

    fn: Callable[..., Any]
    random: bool = False
    encoded: tuple[str, ...] = ()
    name: str | None = None
    row_multiple: int = 1

    def __post_init__(self) -> None:
        _check_fields(self)
        if type(self.row_multiple) is not int or self.row_multiple < 1:
            raise ConfigError(
                f"row_multiple counts rows, at least 1; got {self.row_multiple!r}. Leave it out."
            )


Transform = MapExamples | MapBatches


def _check_fields(transform: Transform) -> None:
    check_flag("random", transform.random)
    encoded = transform.encoded
    if isinstance(encoded, str):
        raise ConfigError(f"encoded is a tuple of paths; got {encoded!r}. Write ({encoded!r},).")
    if not isinstance(encoded, tuple | list):
        raise ConfigError(f"encoded is a tuple of paths; got {encoded!r}. Write ('image',).")
    for path in encoded:
        check_path("encoded", path)
    if not callable(transform.fn):
        raise ConfigError(
            f"{type(transform).__name__} takes a function of TensorFlow; got {transform.fn!r}. "
            "Give the function itself, not its result."
        )
    _check_arguments(transform)


def _check_arguments(transform: Transform) -> None:
    """Raise for a function that takes a seed and gets none, or the other way round."""
    try:
        signature = inspect.signature(transform.fn)
    except (TypeError, ValueError):  # of some builtins nobody knows it
        return
    given = ["features", "seed"][: 1 + transform.random]
    try:
        signature.bind(*given)
    except TypeError:
        raise ConfigError(
            f"The function of a {type(transform).__name__} with random={transform.random} is "
            f"called as fn({', '.join(given)}); it is fn{signature}. "
            f"Write random={not transform.random}, or change the function."
        ) from None

# SPDX-License-Identifier: Apache-2.0
"""From a failure of a transform to the examples that caused it.

TensorFlow says which op failed, not on which record. Nothing is kept for that case while all goes
well: the examples in question are read, decoded and transformed again, a few at a time.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from tfjax_batches.pipeline.planned_reader import SourceRecords
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.bad_record import FAILURES, reason_of
from tfjax_batches.reading.decode import Decoder

FeatureFunction = Callable[[Any, tf.Tensor], Any]
"""Takes features [n, ...] by path and seeds int32[n, places, 2]."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A function that fails on some examples.

    Attributes:
        label: The function.
        examples: int64[n], those that it was given together.
        reason: What TensorFlow says, a sentence.
    """

    label: str
    examples: Int64Array
    reason: str


def find_failure(
    functions: Mapping[str, FeatureFunction],
    decoder: Decoder,
    groups: Iterable[SourceRecords],
) -> Failure | None:
    """Return which of some functions fails first, and on which examples; None: none fails.

    Args:
        functions: Label → function, applied in order, each to what the one before returned.
        decoder: Makes features of records; it can decode all that follow.
        groups: Rows that are transformed together.
    """
    decode = tf.function(decoder.decode, autograph=False)
    traced = {label: tf.function(each, autograph=False) for label, each in functions.items()}
    for records, examples, seeds in groups:
        features = decode(tf.constant(list(records)))
        for label, function in traced.items():
            try:
                features = function(features, tf.constant(seeds))
            except FAILURES as error:
                return Failure(label=label, examples=examples, reason=reason_of(error))
    return None

# SPDX-License-Identifier: Apache-2.0
"""From a failure somewhere in TensorFlow to the example that caused it.

TensorFlow says which op failed, not on which record. Nothing is kept for that case while all goes
well: the examples in question are read, decoded and transformed again, a few at a time.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from tfjax_batches.errors import RecordError
from tfjax_batches.pipeline.planned_reader import RecordGroup
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader

# TensorFlow quotes the bytes of a bad record in its message, and may fail to make text of them.
FAILURES = (tf.errors.OpError, UnicodeDecodeError)

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


def find_bad_record(
    examples: Int64Array, reader: RecordReader, decoder: Decoder
) -> RecordError | None:
    """Return the error of the first example that cannot be read or decoded, or None.

    Args:
        examples: int64[n].
        reader: Access to the records.
        decoder: Makes features of records.
    """
    decode = tf.function(
        decoder.decode, input_signature=[tf.TensorSpec([1], tf.string)], autograph=False
    )
    for example in examples:
        try:
            record = tf.constant(list(reader.read(example[None])))
        except RecordError as error:
            return error
        try:
            decode(record)
        except FAILURES as error:
            return RecordError(
                "A record is a tf.train.Example with the features that the dataset's metadata "
                f"names; example {example}, {reader.describe(int(example))}, is not: "
                f"{reason_of(error)} "
                "Prepare the dataset again, or leave the feature out with features=(…)."
            )
    return None


def find_failure(
    functions: Mapping[str, FeatureFunction],
    decoder: Decoder,
    groups: Iterable[RecordGroup],
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


def reason_of(error: Exception) -> str:
    """Return the line of TensorFlow's message that says what is wrong, as a sentence."""
    if isinstance(error, UnicodeDecodeError):  # TensorFlow quotes bytes that are no text
        return "its bytes cannot be parsed."
    noise = ("Graph execution error", "Detected at", "File ", "[[{{", "Traceback", "<stack traces")
    message = error.message if isinstance(error, tf.errors.OpError) else str(error)
    # Of a failed assertion the text that was given, without the values that were compared.
    if found := re.match(r"assertion failed: \[(.*?)\] \[Condition", message, re.DOTALL):
        message = found[1].replace("\\'", "'")
    lines = [line.strip() for line in message.splitlines()]
    reasons = [line for line in lines if line and not line.startswith(noise)]
    line = reasons[0] if reasons else "TensorFlow gives no reason"
    return line if line.endswith(".") else f"{line}."

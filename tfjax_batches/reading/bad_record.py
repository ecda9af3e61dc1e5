# SPDX-License-Identifier: Apache-2.0
"""The first example that cannot be read or decoded, and what is wrong with it.

TensorFlow says which op failed, not on which record or feature. Nothing is kept for that case while
all goes well: the examples in question are read and decoded again, one at a time.
"""

import re

import tensorflow as tf

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader
from tfjax_batches.reading.retries import RetryingReader

# TensorFlow quotes the bytes of a bad record in its message, and may fail to make text of them.
FAILURES = (tf.errors.OpError, UnicodeDecodeError)

# Outside of tf.data, TensorFlow checks the shapes of some results in Python.
DECODE_FAILURES = (*FAILURES, ValueError)


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
    retrying = RetryingReader(reader)
    for example in examples:
        try:
            record = tf.constant(list(retrying.read(example[None], f"example {example}")))
        except RecordError as error:
            return error
        try:
            decode(record)
        except DECODE_FAILURES as error:
            where = f"example {example}, {reader.describe(int(example))}"
            return undecodable_record(where, record, decoder, error)
    return None


def undecodable_record(
    where: str, record: tf.Tensor, decoder: Decoder, error: Exception
) -> RecordError:
    """Return the error for a record, string[1], that cannot be decoded; names the feature.

    Args:
        where: The example, and where it is stored.
        record: The stored bytes.
        decoder: Makes features of records.
        error: What the decoder raised.
    """
    reason = _feature_reason(record, decoder) or reason_of(error)
    return RecordError(
        "A record is a tf.train.Example with the features that the dataset's metadata names; "
        f"{where}, is not: {reason} Prepare the dataset again, or leave the feature out with "
        "features=(…)."
    )


def _feature_reason(record: tf.Tensor, decoder: Decoder) -> str | None:
    """Return which feature of a record, string[1], fails and why; None: not one by itself."""
    reasons = []
    for name, spec, decode in decoder.each_feature():
        try:
            decode(record)
        except DECODE_FAILURES as error:
            reasons.append(f"its {name!r} must be {spec.describe()}: {reason_of(error)}")
    is_record = len(reasons) > 1 and len(reasons) == len(decoder.parsed)
    return None if is_record or not reasons else reasons[0]


def reason_of(error: Exception) -> str:
    """Return the line of TensorFlow's message that says what is wrong, as a sentence."""
    if isinstance(error, UnicodeDecodeError):  # TensorFlow quotes bytes that are no text
        return "its bytes cannot be parsed."
    noise = ("Graph execution error", "Detected at", "File ", "[[{{", "Traceback", "<stack traces")
    message = error.message if isinstance(error, tf.errors.OpError) else str(error)
    # Of a failed assertion the text that was given, without the values that were compared.
    if found := re.match(r"assertion failed: \[(.*?)\] \[Condition", message, re.DOTALL):
        message = found[1].replace("\\'", "'")
    message = re.sub(r"\{\{function_node .*?\}\} | \[Op:.*", "", message)  # of an op run by itself
    lines = [line.strip() for line in message.splitlines()]
    reasons = [line for line in lines if line and not line.startswith(noise)]
    line = reasons[0] if reasons else "TensorFlow gives no reason"
    return line if line.endswith(".") else f"{line}."

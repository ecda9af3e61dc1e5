# SPDX-License-Identifier: Apache-2.0
"""From a failure somewhere in tf.data to the record that caused it.

tf.data says which op failed, not on which record. Nothing is kept for that case while all goes
well: the records of the failed step are read and decoded again, one by one.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import StepPlan
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader


def explain_failure(
    step: int, step_plan: StepPlan, reader: RecordReader, decoder: Decoder, process_index: int
) -> RecordError | None:
    """Return the error of the first record of a step that cannot be read or decoded.

    Args:
        step: The step, for the message.
        step_plan: What this process's rows hold.
        reader: Access to the records.
        decoder: What turns records into features.
        process_index: This process, for the message.
    """
    cause = explain_records(step_plan.examples[step_plan.mask], reader, decoder)
    return cause and RecordError(f"{cause} (Step {step} on process {process_index}.)")


def explain_records(
    examples: Int64Array, reader: RecordReader, decoder: Decoder
) -> RecordError | None:
    """Return the error of the first of some examples that cannot be read or decoded."""
    decode = tf.function(decoder.decode, input_signature=[tf.TensorSpec([1], tf.string)])
    for example in examples:
        try:
            record = reader.read(example[None])[0]
        except RecordError as error:
            return error
        if (why := _why_undecodable(decoder, decode, tf.constant([record]))) is not None:
            return RecordError(
                "A record is a tf.train.Example with the features that the dataset's metadata "
                f"names; {reader.describe(int(example))}, is not: {why} "
                "Prepare the dataset again, or leave the feature out with features=(…)."
            )
    return None


def _why_undecodable(
    decoder: Decoder, decode: Callable[[tf.Tensor], Any], record: tf.Tensor
) -> str | None:
    """Return why a record cannot be decoded; None: it can.

    Args:
        decoder: What decodes it.
        decode: The same as a graph, as in the pipeline.
        record: string[1].
    """
    try:
        decode(record)
    except (tf.errors.OpError, UnicodeDecodeError):
        pass
    else:
        return None
    # Run eagerly, TensorFlow tells the reason and nothing of a graph.
    try:
        decoder.decode(record)
    except tf.errors.OpError as error:
        why: str = error.message
        return why
    # The message quotes the bytes of the record, which need not be text; or `tf.map_fn`, which
    # run eagerly refuses a feature that holds nothing, came first.
    except ValueError:
        pass
    return "its bytes cannot be parsed."

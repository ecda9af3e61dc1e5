# SPDX-License-Identifier: Apache-2.0
"""From a failure somewhere in tf.data to the record that caused it.

tf.data says which op failed, not on which record. Nothing is kept for that case while all goes
well: the records of the failed step are read and decoded again, one by one.
"""

import tensorflow as tf

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.plan import StepPlan
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.reader import RecordReader


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
    where = f"(Step {step} on process {process_index}.)"
    for example in step_plan.examples[step_plan.mask]:
        try:
            record = reader.read(example[None])[0]
        except RecordError as error:
            return RecordError(f"{error} {where}")
        try:
            decoder.decode(tf.constant([record]))
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            # Such a message quotes the bytes of the record, which need not be text.
            why = getattr(error, "message", "its bytes cannot be parsed.")
            return RecordError(
                "A record is a tf.train.Example with the features that the dataset's metadata "
                f"names; {reader.describe(int(example))}, is not: {why} "
                f"Prepare the dataset again, or leave the feature out with features=(…). {where}"
            )
    return None

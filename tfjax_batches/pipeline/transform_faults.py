# SPDX-License-Identifier: Apache-2.0
"""From a failure somewhere in tf.data to the transform and the example that caused it."""

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import TransformError
from tfjax_batches.planning.plan import StepPlan
from tfjax_batches.planning.seeds import derive_seeds
from tfjax_batches.preprocess.chain import Chain
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader


def explain_transform_failure(
    step: int,
    step_plan: StepPlan,
    seed: int,
    reader: RecordReader,
    decoder: Decoder,
    chain: Chain,
    process_index: int,
) -> TransformError | None:
    """Return the error of the first transform that fails, with the example it fails on.

    As in the pipeline, rows that belong together are transformed together, and these alone.

    Args:
        step: The step, for the message.
        step_plan: What this process's rows hold; all records can be read and decoded.
        seed: Seed of the run.
        reader: Access to the records.
        decoder: What turns records into features.
        chain: The transforms.
        process_index: This process, for the message.
    """
    size = chain.row_multiple
    decode = tf.function(decoder.decode, autograph=False)
    stages = [tf.function(stage, autograph=False) for stage in chain.stages]
    for start in range(0, len(step_plan.rows) if stages else 0, size):
        block = slice(start, start + size)
        examples = step_plan.examples[block]
        seeds = derive_seeds(seed, step_plan.epochs[block], examples, chain.seed_places)
        features = decode(tf.constant(list(reader.read(np.maximum(examples, 0)))))
        for stage, apply in zip(chain.stages, stages, strict=True):
            try:
                features = apply(features, tf.constant(seeds))
            except tf.errors.OpError as error:
                stored = "; ".join(reader.describe(int(e)) for e in examples[examples >= 0])
                return TransformError(
                    f"A transform has a value for every example; {stage.label} fails on {stored}: "
                    f"{first_error_line(error.message)} Mend the transform, or leave the example "
                    "out by the split, or with filter=tjb.FilterExamples(…). "
                    f"(Step {step} on process {process_index}.)"
                )
    return None


def first_error_line(message: str) -> str:
    """Return the line of TensorFlow's message that tells what is wrong; the rest is its cause's."""
    noise = ("Graph execution error", "Detected at", "File ", "[[{{", "Traceback", "<stack traces")
    lines = [line.strip() for line in message.splitlines()]
    reasons = [line for line in lines if line and not line.startswith(noise)]
    line = reasons[0] if reasons else "it gives no reason"
    return line if line.endswith(".") else f"{line}."

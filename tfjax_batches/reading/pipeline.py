# SPDX-License-Identifier: Apache-2.0
"""The tf.data pipeline: plan → records → features → process-local batches.

A group of rows is the unit of work and of parallelism: one Python call plans and reads it, one
TensorFlow function parses and decodes it. Groups never straddle steps, and come out in order.
"""

import functools
import math

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.config import BatchConfig, Remainder
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import PADDING, BatchPlan
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.leaf import FeatureSpec
from tfjax_batches.reading.reader import RecordReader

MASK = "_mask"
ID = "_id"

# Enough bytes to make the call from tf.data into Python cheap beside the work, few enough that
# the groups of one batch of images keep all cores busy.
_GROUP_BYTES = 2**18


def batch_specs(config: BatchConfig, decoder: Decoder, num_examples: int) -> dict[str, FeatureSpec]:
    """Return the spec per row of each entry of a batch, by path, sorted."""
    specs = dict(decoder.specs)
    if config.with_ids:
        specs[ID] = FeatureSpec(shape=(), dtype=_id_dtype(num_examples))
    if config.remainder is Remainder.PAD:
        specs[MASK] = FeatureSpec(shape=(), dtype=np.dtype(bool))
    return dict(sorted(specs.items()))


def build_dataset(
    config: BatchConfig,
    plan: BatchPlan,
    rows: Int64Array,
    reader: RecordReader,
    decoder: Decoder,
    start_step: int = 0,
    stopped: tf.Variable | None = None,
) -> tf.data.Dataset:
    """Return a `tf.data.Dataset` of the process-local batches from `start_step` on.

    Its elements are flat dicts, path → tensor [process_batch, ...]. Padding rows are zeros,
    and -1 in `_id`.

    Args:
        config: A checked config.
        plan: The order of the run.
        rows: int64[process_batch], the rows that this process holds.
        reader: Access to the split's records.
        decoder: What turns records into features.
        start_step: First step to deliver.
        stopped: Ends the dataset, once True. None: nobody wants to.
    """
    group_rows = _group_rows(len(rows), reader.mean_record_bytes())
    groups = math.ceil(len(rows) / group_rows)
    read_group = _GroupReader(plan, rows, reader, group_rows)

    def to_features(work: tf.Tensor) -> dict[str, tf.Tensor]:
        records, examples = tf.numpy_function(
            read_group, [work // groups, work % groups], [tf.string, tf.int64]
        )
        records.set_shape([None])
        examples.set_shape([None])
        return _finish(config, decoder.decode(records), examples, plan.num_examples)

    stop = np.iinfo(np.int64).max if plan.num_steps is None else plan.num_steps * groups
    dataset = tf.data.Dataset.range(start_step * groups, stop)
    if stopped is not None:
        # An end in order: an error, raised by `read_group`, would be told on stderr.
        dataset = dataset.take_while(lambda _: tf.logical_not(stopped))
    dataset = dataset.map(
        to_features,
        num_parallel_calls=config.num_parallel_calls or tf.data.AUTOTUNE,
        deterministic=True,
    )
    # With one group a step this only tells tf.data the size of a batch.
    dataset = dataset.rebatch(len(rows), drop_remainder=True)
    return dataset.prefetch(1).with_options(_options(config))


class _GroupReader:
    """Plans and reads one group of rows; called by tf.data from its threads."""

    def __init__(
        self, plan: BatchPlan, rows: Int64Array, reader: RecordReader, group_rows: int
    ) -> None:
        self._plan = plan
        self._rows = rows
        self._reader = reader
        self._group_rows = group_rows

    def __call__(
        self, step: np.int64, group: np.int64
    ) -> tuple[npt.NDArray[np.object_], Int64Array]:
        start = int(group) * self._group_rows
        step_plan = self._plan.plan_rows(int(step), self._rows[start : start + self._group_rows])
        records = np.empty(len(step_plan.rows), object)
        records[step_plan.mask] = self._reader.read(step_plan.examples[step_plan.mask])
        if not step_plan.mask.all():
            # A padding row is parsed like any other, from a record that is there in any case,
            # and zeroed afterwards.
            records[~step_plan.mask] = self._padding_record
        return records, step_plan.examples

    @functools.cached_property
    def _padding_record(self) -> bytes:
        record: bytes = self._reader.read(np.zeros(1, np.int64))[0]
        return record


def _finish(
    config: BatchConfig, features: dict[str, tf.Tensor], examples: tf.Tensor, num_examples: int
) -> dict[str, tf.Tensor]:
    """Zero the padding rows and add `_mask` and `_id`."""
    if config.remainder is Remainder.PAD:
        mask = examples != PADDING
        features = {path: _zero_padding(value, mask) for path, value in features.items()}
        features[MASK] = mask
    if config.with_ids:
        features[ID] = tf.cast(examples, _id_dtype(num_examples))
    return features


def _zero_padding(value: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    mask = tf.reshape(mask, [-1] + [1] * (value.shape.rank - 1))
    return tf.where(mask, value, tf.zeros([], value.dtype))


def _id_dtype(num_examples: int) -> np.dtype:
    return np.dtype(np.int32 if num_examples < 2**31 else np.int64)


def _group_rows(process_batch: int, mean_record_bytes: float) -> int:
    """Return the rows of a group: a whole batch of tiny records, a few of large images."""
    return int(min(process_batch, max(1, _GROUP_BYTES // mean_record_bytes)))


def _options(config: BatchConfig) -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    if config.threadpool_size is not None:
        options.threading.private_threadpool_size = config.threadpool_size
    if config.ram_budget_bytes is not None:
        options.autotune.ram_budget = config.ram_budget_bytes
    return options

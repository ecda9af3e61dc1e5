# SPDX-License-Identifier: Apache-2.0
"""The tf.data pipeline: plan → records → features → process-local batches.

One Python call plans and reads a group of rows, one TensorFlow function parses and decodes it.
Groups come out in order.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Protocol

import numpy as np
import tensorflow as tf

from tfjax_batches.config.batch_config import BatchConfig
from tfjax_batches.errors import FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import HOST, ID, MASK, RESERVED
from tfjax_batches.features.ragged import empty_rows
from tfjax_batches.features.rows import UNROLL_LIMIT
from tfjax_batches.pipeline.groups import GroupSizes, PlannedReader, plan_group_sizes
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import PADDING, BatchPlan
from tfjax_batches.planning.policies import Remainder
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader

_ENDLESS = 2**40  # steps; even times the groups of a step they fit an int64

GroupFeatures = dict[str, tf.Tensor | tf.RaggedTensor]


class GroupTransform(Protocol):
    """What happens to the decoded features of a group."""

    @property
    def maps_each_example(self) -> bool:
        """Whether it works on one example after the other."""

    @property
    def row_multiple(self) -> int:
        """What the rows of a group must be a multiple of."""

    @property
    def seed_places(self) -> tuple[int, ...]:
        """Places of its parts that take a seed."""

    def __call__(self, features: GroupFeatures, seeds: tf.Tensor) -> GroupFeatures:
        """Return features by path, from those before and seeds int32[n, places, 2]."""


def batch_specs(
    config: BatchConfig,
    features: Mapping[str, FeatureSpec],
    host_paths: Collection[str],
    num_in_split: int,
) -> dict[str, FeatureSpec]:
    """Return the spec per row of each entry of a batch, by path, sorted.

    Raises:
        FeatureError: The dataset has a feature of a name that batches use themselves.
    """
    if taken := [path for path in features if path.split("/")[0] in RESERVED]:
        raise FeatureError(
            f"Batches use the names {', '.join(RESERVED)} themselves; the dataset has "
            f"{', '.join(taken)}. Leave these out with features=(…)."
        )
    specs = {_batch_path(path, host_paths): spec for path, spec in features.items()}
    if config.with_ids:
        specs[ID] = FeatureSpec(shape=(), dtype=_id_dtype(num_in_split))
    if config.remainder is Remainder.PAD:
        specs[MASK] = FeatureSpec(shape=(), dtype=np.dtype(bool))
    return dict(sorted(specs.items()))


def build_dataset(
    config: BatchConfig,
    plan: BatchPlan,
    rows: Int64Array,
    reader: RecordReader,
    decoder: Decoder,
    transform: GroupTransform,
    host_paths: Collection[str],
    start_step: int = 0,
    stopped: tf.Variable | None = None,
    *,
    one_by_one: bool = False,
    in_blocks: bool = False,
) -> tf.data.Dataset:
    """Return a `tf.data.Dataset` of the process-local batches from `start_step` on.

    Its elements are flat dicts, path → tensor [process_batch, ...]. Padding rows are zeros,
    empty where ragged, and -1 in `_id`. Features that stay on the host lie below `_host`.

    Args:
        config: A checked config.
        plan: The order of the run.
        rows: int64[process_batch], the rows that this process holds.
        reader: Access to the split's records.
        decoder: What turns records into features.
        transform: Applied to the decoded features of each group.
        host_paths: Paths of the features that stay on the host.
        start_step: First step to deliver.
        stopped: Ends the dataset, once True. None: nobody wants to.
        one_by_one: Make each step by itself, so that a step that fails takes no other with it.
        in_blocks: Leave the steps of a group together, [steps · process_batch, ...]: for small
            batches, handing each over costs more than the rest.
    """
    sizes = plan_group_sizes(
        len(rows),
        reader.mean_record_bytes(),
        most_rows=UNROLL_LIMIT
        if decoder.maps_each_example or transform.maps_each_example
        else _ENDLESS,
        group_size=config.group_size,
        row_multiple=transform.row_multiple,
    )
    single = dataclasses.replace(sizes, steps=1)
    if one_by_one:
        sizes = single
    endless = start_step + sizes.steps * _ENDLESS
    stop_step = endless if plan.num_steps is None else plan.num_steps

    def make(sizes: GroupSizes, first: int, stop: int) -> tf.data.Dataset:
        read_group = PlannedReader(plan, rows, reader, sizes, transform.seed_places)
        group_rows = sizes.steps * sizes.group_rows if sizes.is_uniform else None

        # What users wrote in Python is a graph by now; errors of ours would come as AutoGraph's.
        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def to_features(group: tf.Tensor) -> GroupFeatures:
            records, examples, seeds = _read(read_group, sizes, group, group_rows)
            seeds.set_shape([group_rows, len(transform.seed_places), 2])
            features = transform(decoder.decode(records), seeds)
            features = _finish(config, features, examples, plan.num_in_split)
            return {_batch_path(path, host_paths): value for path, value in features.items()}

        groups = tf.data.Dataset.range(first * sizes.count, stop * sizes.count, sizes.steps)
        if stopped is not None:
            # An end in order: an error, raised by the reader, would be told on stderr.
            groups = groups.take_while(lambda _: tf.logical_not(stopped))
        groups = groups.map(
            to_features,
            num_parallel_calls=config.num_parallel_calls or tf.data.AUTOTUNE,
            deterministic=True,
        )
        return groups if in_blocks and sizes.count == 1 else _to_batches(groups, sizes)

    # The last steps may be too few for a group of several.
    edge = stop_step - (stop_step - start_step) % sizes.steps
    if edge == start_step:
        dataset = make(single, start_step, stop_step)
    elif edge == stop_step:
        dataset = make(sizes, start_step, stop_step)
    else:
        dataset = make(sizes, start_step, edge).concatenate(make(single, edge, stop_step))
    return dataset.prefetch(1).with_options(_options(config))


def _read(
    read_group: PlannedReader, sizes: GroupSizes, group: tf.Tensor, group_rows: int | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return records, examples and seeds of a group, from its number."""
    records, examples, seeds = tf.numpy_function(
        read_group,
        [group // sizes.count, group % sizes.count],
        [tf.string, tf.int64, tf.int32],
    )
    for value in (records, examples):
        value.set_shape([group_rows])
    return records, examples, seeds


def _to_batches(groups: tf.data.Dataset, sizes: GroupSizes) -> tf.data.Dataset:
    """Join groups that are parts of a step; cut those of several."""
    if sizes.count > 1:
        return groups.rebatch(sizes.rows, drop_remainder=True)
    if sizes.steps == 1:
        return groups

    def cut(features: GroupFeatures) -> GroupFeatures:
        return {
            path: tf.RaggedTensor.from_uniform_row_length(value, sizes.rows)
            if isinstance(value, tf.RaggedTensor)
            else tf.reshape(value, [sizes.steps, sizes.rows, *value.shape[1:]])
            for path, value in features.items()
        }

    return groups.map(cut).unbatch()


def _finish(
    config: BatchConfig, features: GroupFeatures, examples: tf.Tensor, num_in_split: int
) -> GroupFeatures:
    """Zero the padding rows and add `_mask` and `_id`."""
    if config.remainder is Remainder.PAD:
        mask = examples != PADDING
        features = {path: _zero_padding(value, mask) for path, value in features.items()}
        features[MASK] = mask
    if config.with_ids:
        features[ID] = tf.cast(examples, _id_dtype(num_in_split))
    return features


def _batch_path(path: str, host_paths: Collection[str]) -> str:
    return f"{HOST}/{path}" if path in host_paths else path


def _zero_padding(
    value: tf.Tensor | tf.RaggedTensor, mask: tf.Tensor
) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(value, tf.RaggedTensor):
        return empty_rows(value, mask)
    mask = tf.reshape(mask, [-1] + [1] * (value.shape.rank - 1))
    return tf.where(mask, value, tf.zeros([], value.dtype))


def _id_dtype(num_in_split: int) -> np.dtype:
    return np.dtype(np.int32 if num_in_split < 2**31 else np.int64)


def _options(config: BatchConfig) -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    if config.threadpool_size is not None:
        options.threading.private_threadpool_size = config.threadpool_size
    if config.ram_budget_bytes is not None:
        options.autotune.ram_budget = config.ram_budget_bytes
    return options

# SPDX-License-Identifier: Apache-2.0
"""The host batches of one process, as one value: plan, rows, reader, decoder, transforms.

One Python call plans and reads a group of rows, one TensorFlow function decodes and transforms it.
Groups come out in order.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.config.batch_config import Config
from tfjax_batches.errors import BatchesError, ConfigError, RecordError, TransformError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Path
from tfjax_batches.features.rows import GroupFeatures
from tfjax_batches.pipeline.block_reads import READ_AHEAD_BYTES, BlockReads
from tfjax_batches.pipeline.diagnose import find_failure
from tfjax_batches.pipeline.group_function import GroupFunction
from tfjax_batches.pipeline.groups import GroupSizes, plan_group_sizes
from tfjax_batches.pipeline.host_batches import HostBatches
from tfjax_batches.pipeline.planned_reader import PlannedReader, SourceRecords
from tfjax_batches.pipeline.preview import preview_stages
from tfjax_batches.pipeline.single_steps import SingleSteps
from tfjax_batches.pipeline.weak_call import WeakCall, hold_while_alive
from tfjax_batches.planning.block_order import BlockOrder
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.source_plan import PADDING
from tfjax_batches.reading.bad_record import FAILURES, find_bad_record
from tfjax_batches.reading.formats import RecordReader
from tfjax_batches.reading.read_pool import ReadPool
from tfjax_batches.reading.retries import RetryingReader
from tfjax_batches.text.numbers import is_integer

# Rows of a run by which sources count in the mean size of a record.
_ROWS_TO_WEIGH = 2**20

# Sizes of batches open at a time. To trace one takes 0.1 to 0.5 s, and there may be dozens.
_SIZES_OPEN = 2

_ENDLESS = 2**40  # steps; times the groups of a step they still fit an int64


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What changes speed and memory of reading, and no value; fields as in `BatchConfig`."""

    group_size: int | None = None
    num_parallel_calls: int | None = None
    threadpool_size: int | None = None
    ram_budget_bytes: int | None = None
    read_ahead_bytes: int | None = None

    @classmethod
    def from_config(cls, config: Config) -> "ReadOptions":
        """Return the options that a config holds."""
        return cls(**{field.name: getattr(config, field.name) for field in dataclasses.fields(cls)})


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HostPipeline:
    """All host batches of one process, each a function of its step.

    Attributes:
        plan: The order of the run.
        rows: Global batch size → int64[process_batch], the rows that this process holds, rising.
        readers: Access to the records of each source.
        example_bytes: Mean size of the examples of each source by the metadata; 0: not known.
        group: What becomes of the records of a group.
        process_index: This process, named in errors.
        source_names: Of a mixture, named in errors.
        pool: The threads that wait for storage.
        options: What changes speed and memory.
    """

    plan: BatchPlan
    rows: Mapping[int, Int64Array]
    readers: tuple[RecordReader, ...]
    example_bytes: tuple[float, ...]
    group: GroupFunction
    process_index: int
    source_names: tuple[str, ...] = ()
    pool: ReadPool = dataclasses.field(default_factory=ReadPool)
    options: ReadOptions = dataclasses.field(default_factory=ReadOptions)

    @property
    def device_specs(self) -> Mapping[Path, FeatureSpec]:
        """The spec, per row, of each entry of a batch that goes to the devices, by path."""
        return self.group.device_specs

    @property
    def host_specs(self) -> Mapping[Path, FeatureSpec]:
        """The spec, per row, of each entry below `_host`, by path."""
        return self.group.host_specs

    def rows_at(self, step: int) -> Int64Array:
        """Return the rows that this process holds at a step, int64[process_batch], rising."""
        return self.rows[self.plan.schedule.rows_at(step)]

    def group_sizes_at(self, step: int) -> GroupSizes:
        """Return how the rows of a step are cut; finds the records of the sources.

        Raises:
            RecordError: A file is missing, or does not hold its records.
        """
        return self._group_sizes[self.plan.schedule.rows_at(step)]

    @functools.cached_property
    def _group_sizes(self) -> dict[int, GroupSizes]:
        """How the rows of steps are cut, by global batch size."""
        for reader in self.readers:
            reader.open()
        each_bytes = [reader.mean_record_bytes() for reader in self.readers]
        shares = self.plan.mixture.counts_at(_ROWS_TO_WEIGH)
        return {
            size: plan_group_sizes(
                len(rows),
                float(np.average(each_bytes, weights=shares)),
                group_size=self.options.group_size,
                row_multiple=self.group.row_multiple,
                maps_each_example=any(source.maps_each_example for source in self.group.sources),
            )
            for size, rows in self.rows.items()
        }

    def dataset(
        self,
        start_step: int = 0,
        *,
        together: bool = False,
        stopped: tf.Variable | None = None,
        blocks: Mapping[int, BlockReads] | None = None,
    ) -> tf.data.Dataset:
        """Return the host batches from a step on.

        Args:
            start_step: 0 <= start_step <= num_steps.
            together: Whether elements hold several steps, as many as `group_sizes_at` says. Where
                too few are left of one size, elements hold one step each. It ends after the next
                size, so that each is traced only when it is near.
            stopped: Ends the dataset once it is True. None: nothing does.
            blocks: As `block_reads` returns them, where others take of them too. None: its own.

        Returns:
            A `tf.data.Dataset` of flat dicts, path → tensor [steps · process_batch, ...]. Padding
            rows are zeros, empty where ragged, and -1 in `_id`.

        Raises:
            IndexError: There is no such step.
            RecordError: A file is missing, or does not hold its records.
        """
        self._check_start(start_step)
        if blocks is None:
            blocks = self.block_reads(start_step)
        runs = self.plan.schedule.runs(start_step, self.plan.num_steps)
        parts = [
            self._steps_of_one_size(blocks, start, stop, together, stopped)
            for start, stop in itertools.islice(runs, _SIZES_OPEN if together else None)
        ]
        dataset = functools.reduce(lambda whole, part: whole.concatenate(part), parts)
        return dataset.prefetch(1).with_options(self._options())

    def host_batches(self, start_step: int = 0) -> HostBatches:
        """Return an iterator over the host batches from a step on, as flat dicts of NumPy arrays.

        Args:
            start_step: As for `dataset`.

        Raises:
            IndexError: As for `dataset`.
            RecordError: As for `dataset`.
        """
        self._check_start(start_step)
        blocks = self.block_reads(start_step)
        alone = {
            size: SingleSteps(
                read=self._planned_reader(size, blocks=blocks),
                group=self.group,
                sizes=dataclasses.replace(sizes, steps=1),
            )
            for size, sizes in self._group_sizes.items()
        }
        schedule = self.plan.schedule
        return HostBatches(
            functools.partial(self.dataset, blocks=blocks),
            lambda step: alone[schedule.rows_at(step)].make(step),
            self.explain,
            self.group_sizes_at,
            self.host_specs,
            start_step,
            self.plan.num_steps,
        )

    def explain(self, step: int) -> BatchesError | None:
        """Return the error that explains why a step failed, or None where no cause is found."""
        plan = self.plan.plan_rows(step, self.rows_at(step))
        for source in range(len(self.readers)):
            here = plan.sources == source
            if cause := self._explain(source, plan.examples[here], plan.epochs[here], step):
                return cause
        return None

    def preview(self, n: int, source: int) -> dict[str, dict[Path, npt.NDArray[np.generic]]]:
        """Return stage → path → NumPy array [n, ...] of a source; see `BatchLoader.preview`.

        Raises:
            ConfigError: As for `BatchLoader.preview`.
            BatchesError: As for `BatchLoader.preview`.
        """
        plan, function = self.plan.sources[source], self.group.sources[source]
        most = plan.epochs.delivered
        if not is_integer(n, 1, most):
            raise ConfigError(
                f"preview(n) shows examples of the first epoch, 1 <= n <= {most}; got {n!r}. "
                "Ask for fewer, or iterate."
            )
        # Rows that a transform mixes come together, also where only some of them are shown.
        multiple = function.chain.row_multiple
        examples, epochs = plan.examples_at(np.arange(-(-n // multiple) * multiple))
        try:
            group = self._planned_reader(self.plan.global_batch_size).read(
                source, examples, epochs, "the preview"
            )
            stages = preview_stages(function.decoder, function.chain, group)
        except FAILURES as error:
            if (cause := self._explain(source, examples, epochs, 0)) is None:
                raise
            raise cause from error
        return {
            stage: {path: values[:n] for path, values in features.items()}
            for stage, features in stages.items()
        }

    def _check_start(self, start_step: int) -> None:
        stop_step = self.plan.num_steps
        if start_step < 0 or (stop_step is not None and start_step > stop_step):
            raise IndexError(
                f"start_step lies in 0 <= start_step <= {stop_step}; got {start_step}."
            )

    def _explain(
        self, source: int, examples: Int64Array, epochs: Int64Array, step: int
    ) -> BatchesError | None:
        """Return the error that explains why rows of a source fail, or None."""
        of = f", source {self.source_names[source]!r}" if self.source_names else ""
        where = f"(Step {step} on process {self.process_index}{of}.)"
        reader, function = self.readers[source], self.group.sources[source]
        real = examples[examples != PADDING]
        if bad := find_bad_record(real, reader, function.decoder):
            return RecordError(f"{bad} {where}")
        functions = {each.label: each for each in function.chain.transforms}
        few = self._read_few(source, examples, epochs)
        failure = find_failure(functions, function.decoder, few)
        if failure is None:
            return None
        stored = "; ".join(
            f"example {example}, {reader.describe(example)}"
            for example in failure.examples.tolist()
            if example != PADDING
        )
        after = list(functions).index(failure.label) + 1
        later = function.chain.transforms[after:]
        decoding = [each.label for each in later if each.transform.encoded]
        hint = f"It is given the stored bytes that {decoding[0]} decodes. " if decoding else ""
        return TransformError(
            f"A transform returns features for every example; {failure.label} fails on {stored}: "
            f"{failure.reason} {hint}Correct the transform, or leave the example out with a split "
            f"or with filter=tjb.FilterExamples(…). {where}"
        )

    def _read_few(
        self, source: int, examples: Int64Array, epochs: Int64Array
    ) -> Iterator[SourceRecords]:
        """Yield as few rows as can be transformed together, without those of padding."""
        reader = self._planned_reader(self.plan.global_batch_size)
        multiple = self.group.sources[source].chain.row_multiple
        for start in range(0, len(examples), multiple):
            rows = slice(start, start + multiple)
            if (examples[rows] != PADDING).any():
                yield reader.read(source, examples[rows], epochs[rows], "the search for an error")

    def block_reads(self, start_step: int) -> dict[int, BlockReads]:
        """Return the blocks of the sources that are read in blocks, from a step on."""
        readers = {
            source: reader
            for source, reader in enumerate(self.readers)
            if isinstance(self.plan.sources[source].order, BlockOrder) and reader.reads_ranges()
        }
        ahead_bytes = self.options.read_ahead_bytes or READ_AHEAD_BYTES
        return {
            source: BlockReads(
                self.plan,
                source,
                self.rows,
                RetryingReader(reader),
                record_bytes=reader.mean_record_bytes(),
                pool=self.pool,
                ahead_bytes=ahead_bytes // len(readers),
                start_step=start_step,
            )
            for source, reader in readers.items()
        }

    def _planned_reader(
        self,
        global_batch_size: int,
        steps: int = 1,
        blocks: Mapping[int, BlockReads] | None = None,
    ) -> PlannedReader:
        """Return a reader of groups of so many steps, all of one size."""
        sizes = dataclasses.replace(self._group_sizes[global_batch_size], steps=steps)
        rows = self.rows[global_batch_size]
        places = [function.chain.seed_places for function in self.group.functions]
        return PlannedReader(
            self.plan, rows, self.readers, sizes, self.group.function_of, places, blocks
        )

    def _steps_of_one_size(
        self,
        blocks: Mapping[int, BlockReads],
        start_step: int,
        stop_step: int | None,
        together: bool,
        stopped: tf.Variable | None,
    ) -> tf.data.Dataset:
        """Return the host batches of steps of one size, several steps an element if `together`."""
        sizes = self.group_sizes_at(start_step)
        steps = sizes.steps if together else 1
        if stop_step is None:
            stop_step = start_step + steps * _ENDLESS
        edge = stop_step - (stop_step - start_step) % steps
        if edge == start_step:
            steps, edge = 1, stop_step
        dataset = self._groups(blocks, steps, start_step, edge, stopped)
        if edge < stop_step:
            dataset = dataset.concatenate(self._groups(blocks, 1, edge, stop_step, stopped))
        if sizes.groups_per_step > 1:
            dataset = dataset.rebatch(sizes.rows, drop_remainder=True)
        return dataset

    def _groups(
        self,
        blocks: Mapping[int, BlockReads],
        steps: int,
        start_step: int,
        stop_step: int,
        stopped: tf.Variable | None,
    ) -> tf.data.Dataset:
        """Return the groups of `steps` steps each, or the parts of each step, in order."""
        sizes = dataclasses.replace(self.group_sizes_at(start_step), steps=steps)
        per_step = sizes.groups_per_step
        reader = self._planned_reader(self.plan.schedule.rows_at(start_step), steps, blocks)
        # Nothing of Python lives as long as a graph in which a user makes a dataset.
        read_group = WeakCall(reader) if tf.executing_eagerly() else reader
        apply = self.group.trace(sizes.static_rows)
        specs = apply.structured_input_signature[0]

        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def make_group(number: tf.Tensor) -> GroupFeatures:
            where = [number // per_step, number % per_step]
            group = tf.numpy_function(read_group, where, [spec.dtype for spec in specs])
            for tensor, spec in zip(group, specs, strict=True):
                tensor.set_shape(spec.shape)
            features: GroupFeatures = apply(*group)
            return features

        groups = tf.data.Dataset.range(start_step * per_step, stop_step * per_step, steps)
        if stopped is not None:
            # An orderly end: TensorFlow would print an error of the reader to stderr.
            groups = groups.take_while(lambda _: tf.logical_not(stopped))
        groups = groups.map(
            make_group,
            num_parallel_calls=self.options.num_parallel_calls or tf.data.AUTOTUNE,
            deterministic=True,
        )
        hold_while_alive(groups, reader)
        return groups

    def _options(self) -> tf.data.Options:
        options = tf.data.Options()
        options.deterministic = True
        if self.options.threadpool_size is not None:
            options.threading.private_threadpool_size = self.options.threadpool_size
        if self.options.ram_budget_bytes is not None:
            options.autotune.ram_budget = self.options.ram_budget_bytes
        return options

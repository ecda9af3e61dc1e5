# SPDX-License-Identifier: Apache-2.0
"""The loader, which knows every batch of a run, and the iterator, which delivers them."""

import dataclasses
import numbers
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import jax
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.config.batch_config import BatchConfig
from tfjax_batches.errors import BatchesError, ConfigError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import HOST, nest
from tfjax_batches.loading.state import Fingerprint, make_state, read_position, with_kept
from tfjax_batches.pipeline.groups import GroupSizes, PlannedReader
from tfjax_batches.pipeline.host_batches import HostBatch, HostBatches
from tfjax_batches.pipeline.host_pipeline import build_dataset
from tfjax_batches.pipeline.preview import preview_stages
from tfjax_batches.pipeline.record_faults import explain_failure
from tfjax_batches.pipeline.transform_faults import explain_transform_failure
from tfjax_batches.placing.assemble import Assembler
from tfjax_batches.placing.isolation import isolated
from tfjax_batches.placing.prefetcher import Prefetcher
from tfjax_batches.placing.stats import Stats
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.plan import BatchPlan, StepPlan
from tfjax_batches.planning.selection import Selection
from tfjax_batches.preprocess.chain import Chain
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader
from tfjax_batches.showing.run import describe_run
from tfjax_batches.text.description import Description

B = TypeVar("B")

Batch = dict[str, Any]
"""A nested dict of arrays: TFDS features by name; `_mask`, `_id`, `_host` where asked for."""

FlatBatch = dict[str, jax.Array | npt.NDArray[np.generic]]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BatchLoader:
    """All batches of a run, each a function of its step. Made by `build`.

    Iterating gives a `BatchIterator` over `jax.Array`s from step 0; each `iter` starts anew.

    Attributes:
        config: The checked config; a snapshot.
        layout: Which rows each process holds.
        plan: Which example stands in which row.
        process_index: The process whose rows are read here.
        fingerprint: What the rows depend on, as it stands in saved states.
        label_names: Names of the classes of each label of TFDS, by path: the name of label 3 is
            `label_names["label"][3]`.

    Features that `keep_on_host` names stand in `batch["_host"]`, nested by path, as read-only
    NumPy arrays of this process's rows alone, which are `layout.rows(process_index)`. Take them out
    before a jitted function gets the batch: `host = batch.pop("_host")`. Their dtypes are those of
    TFDS, strings are bytes, and a feature whose size differs from example to example is an object
    array of one array per row. Padding rows are zeros, or empty. A row is a view of the memory of
    its batch, all of which lives as long as the row does: to keep one row for long, copy it.
    """

    config: BatchConfig
    layout: BatchLayout
    plan: BatchPlan
    process_index: int
    fingerprint: Fingerprint
    label_names: Mapping[str, tuple[str, ...]]
    _flat_spec: Mapping[str, jax.ShapeDtypeStruct]
    _host_specs: Mapping[str, FeatureSpec]
    _reader: RecordReader
    _decoder: Decoder
    _chain: Chain

    @property
    def device_specs(self) -> Mapping[str, jax.ShapeDtypeStruct]:
        """Global shape, dtype and sharding of each array of a batch, by path."""
        return self._flat_spec

    @property
    def host_specs(self) -> Mapping[str, FeatureSpec]:
        """Shape and dtype, of one example, of each feature that stays on the host, by path."""
        return self._host_specs

    @property
    def element_spec(self) -> dict[str, Any]:
        """Global shape, dtype and sharding of each `jax.Array` of a batch; nested like a batch.

        Features that stay on the host have none of the three, and are not here; `dataset()` has
        an `element_spec` of its own that shows them.
        """
        return nest(self._flat_spec)

    @property
    def transform_names(self) -> tuple[str, ...]:
        """Place and name of each transform, in order, as `preview` has them: `"1. flip_lr"`."""
        return tuple(stage.label for stage in self._chain.stages)

    @property
    def num_examples(self) -> int:
        """Examples of an epoch: those in the split, or those that `keep` keeps of it."""
        return self.plan.num_examples

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in one epoch; under CARRY an epoch may end within a further one."""
        return self.plan.steps_per_epoch

    @property
    def num_steps(self) -> int | None:
        """Steps of the run, the same on all processes; None when endless."""
        return self.plan.num_steps

    def __len__(self) -> int:
        if self.num_steps is None:
            raise TypeError(
                "A loader has a length when it has an end; num_epochs is None, which is endless. "
                "Set num_epochs, or use steps_per_epoch."
            )
        return self.num_steps

    def __iter__(self) -> "BatchIterator":
        return BatchIterator(self)

    def plan_step(self, step: int, process_index: int | None = None) -> StepPlan:
        """Return which examples a process holds at a step, without reading any.

        Args:
            step: Step, 0 <= step < num_steps.
            process_index: A process of the layout. None: this one.

        Raises:
            IndexError: There is no such step or process.
        """
        index = self.process_index if process_index is None else process_index
        return self.plan.plan_rows(step, self.layout.rows(index))

    def dataset(self, start_step: int = 0) -> tf.data.Dataset:
        """Return a `tf.data.Dataset` of this process's batches, [process_batch, ...], nested."""
        return self._flat_dataset(start_step).map(nest)

    def host_batches(self, start_step: int = 0) -> Iterator[Batch]:
        """Yield this process's batches as read-only NumPy, [process_batch, ...], nested."""
        return self._prefetch(nest, start_step, depth=0)

    def preview(self, n: int = 4) -> dict[str, Batch]:
        """Return the first examples of the run before the transforms and after each of them.

        To be looked at: it reads these examples by itself, and can be called on any process.

        Args:
            n: Examples, from 1 to those of an epoch.

        Returns:
            Stage → features as NumPy [n, ...], nested, in order of the chain: `"decoded"`, then
            one for each transform by place and name, as `"1. flip_lr"`. The last holds the first
            `n` rows of the batches. Features of any size are object arrays, as in host batches.

        Raises:
            ConfigError: `n` is out of bounds.
            RecordError: A record cannot be read or decoded.
            TransformError: A transform fails on one of the examples.

        Example::

            for stage, features in loader.preview(2).items():
                print(stage, features["image"].shape)
        """
        most = min(self.plan.epoch_length, self.num_examples)
        if isinstance(n, bool) or not isinstance(n, numbers.Integral) or not 1 <= n <= most:
            raise ConfigError(
                f"preview(n) shows examples of the first epoch, 1 <= n <= {most}; got {n!r}. "
                "Ask for fewer, or iterate."
            )
        # Rows that a transform mixes are shown as they come, with those that they are mixed with.
        count = -(-int(n) // self._chain.row_multiple) * self._chain.row_multiple
        rows = np.arange(count)
        sizes = GroupSizes(rows=count, group_rows=count)
        read = PlannedReader(self.plan, rows, self._reader, sizes, self._chain.seed_places)
        try:
            records, _, seeds = read(np.int64(0), np.int64(0))
            stages = preview_stages(self._decoder, self._chain, records, seeds)
        except tf.errors.OpError as error:
            if (cause := self._explain_rows(0, self.plan.plan_rows(0, rows))) is None:
                raise
            raise cause from error
        return {
            stage: nest({path: values[:n] for path, values in features.items()})
            for stage, features in stages.items()
        }

    def describe(self) -> Description:
        """Return dataset, order, layout, features and memory, for people: `print` it.

        Notebooks show it as HTML, and a loader the same way. Nothing is read for it.
        """
        return describe_run(self)

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def keeping(self, kept: Selection) -> "BatchLoader":
        """Return the loader of those examples of the split alone."""
        fingerprint = with_kept(self.fingerprint, kept)
        return dataclasses.replace(self, plan=self.plan.keeping(kept), fingerprint=fingerprint)

    def restore(self, state: Mapping[str, Any]) -> "BatchIterator":
        """Return an iterator that goes on where the state was saved, without reading before it.

        Number of processes, mesh, device order, prefetching and threads may be others, and so may
        `num_epochs`, and under CARRY the batch size: rows go on from the same position, and steps
        count as if all batches before had the new size.

        Args:
            state: What `BatchIterator.get_state` returned, on any process.

        Raises:
            StateError: The state is malformed, from a later version, or of a run with other rows;
                names each field with both values, and how to go on.
        """
        return BatchIterator(*self._at_state(state))

    @property
    def _host_paths(self) -> frozenset[str]:
        return frozenset(path.removeprefix(f"{HOST}/") for path in self._host_specs)

    @property
    def _rows(self) -> npt.NDArray[np.int64]:
        return self.layout.rows(self.process_index)

    def _flat_dataset(
        self,
        start_step: int,
        stopped: tf.Variable | None = None,
        *,
        one_by_one: bool = False,
        in_blocks: bool = False,
    ) -> tf.data.Dataset:
        if start_step < 0 or (self.num_steps is not None and start_step > self.num_steps):
            raise IndexError(
                f"start_step lies in 0 <= start_step <= {self.num_steps}; got {start_step}."
            )
        return build_dataset(
            self.config,
            self.plan,
            self._rows,
            self._reader,
            self._decoder,
            self._chain,
            self._host_paths,
            start_step,
            stopped,
            one_by_one=one_by_one,
            in_blocks=in_blocks,
        )

    def _at_state(self, state: Mapping[str, Any]) -> "tuple[BatchLoader, int]":
        """Return the loader whose plan goes on from a state, and the step that comes next."""
        position = read_position(state, self.plan, self.fingerprint)
        plan, step = self.plan.starting_at(position)
        return dataclasses.replace(self, plan=plan), step

    def _device_batches(self, start_step: int) -> Prefetcher[HostBatch, FlatBatch]:
        assemble = isolated(Assembler(self._flat_spec, self._rows))

        def place(host_batch: HostBatch) -> FlatBatch:
            return {**assemble(host_batch), **{path: host_batch[path] for path in self._host_specs}}

        return self._prefetch(place, start_step, self.config.prefetch_depth)

    def _prefetch(
        self, place: Callable[[HostBatch], B], start_step: int, depth: int
    ) -> Prefetcher[HostBatch, B]:
        """Return what iterates from a step on; its state is the step that comes next."""
        source = HostBatches(
            lambda stopped, step, one_by_one: self._flat_dataset(
                step, stopped, one_by_one=one_by_one, in_blocks=True
            ),
            start_step,
            len(self._rows),
            self._explain,
            {path: spec for path, spec in self._host_specs.items() if not spec.is_fixed},
        )
        return Prefetcher(
            source,
            place,
            depth=depth,
            max_bytes=self.config.prefetch_bytes,
            get_state=lambda: source.step,
            cancel=source.stop,
            stall_seconds=self.config.stall_seconds,
        )

    def _explain(self, step: int) -> BatchesError | None:
        return self._explain_rows(step, self.plan_step(step))

    def _explain_rows(self, step: int, rows: StepPlan) -> BatchesError | None:
        """Return what is wrong with a record, or what a transform fails on; None: nothing is."""
        read = self._reader, self._decoder
        return explain_failure(step, rows, *read, self.process_index) or explain_transform_failure(
            step, rows, self.plan.seed, *read, self._chain, self.process_index
        )


class BatchIterator(Iterator[Batch]):
    """Batches of global `jax.Array`s, in order of step. Made by `iter(loader)` or `restore`.

    Use it as a context manager, or call `close`, to end its thread and free its memory.
    """

    def __init__(self, loader: BatchLoader, start_step: int = 0) -> None:
        self._open(loader, start_step)

    @property
    def step(self) -> int:
        """Index of the next batch, which is the number of batches delivered since step 0."""
        step: int = self._placed.state
        return step

    @property
    def stats(self) -> Stats:
        """What this iterator has delivered so far, and where the time went."""
        plan = self._loader.plan
        before, now = (plan.examples_before(s) for s in (self._start_step, self.step))
        return dataclasses.replace(self._placed.stats, examples=now - before)

    def __next__(self) -> Batch:
        return nest(next(self._placed))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the prefetching and drop the batches that wait, in under two seconds."""
        self._placed.close()

    def get_state(self) -> dict[str, Any]:
        """Return what `BatchLoader.restore` needs to go on after the batch last delivered.

        Plain JSON of under 2 KB, equal on all processes: it is enough to save it on one. Batches
        that were made ahead and not delivered are not counted. Works on a closed iterator too.
        """
        return make_state(self._loader.plan.position_of(self.step), self._loader.fingerprint)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, as `BatchLoader.restore` does; opens a closed iterator again.

        Raises:
            StateError: As for `restore`; nothing has changed then.
        """
        loader, start_step = self._loader._at_state(state)
        before = self._placed
        self._open(loader, start_step)
        before.close()

    def _open(self, loader: BatchLoader, start_step: int) -> None:
        self._loader = loader
        self._start_step = start_step
        self._placed = loader._device_batches(start_step)

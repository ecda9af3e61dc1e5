# SPDX-License-Identifier: Apache-2.0
"""The loader, which knows every batch of a run."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import tensorflow as tf
from absl import logging

from tfjax_batches.config.batch_config import BatchConfig, Config
from tfjax_batches.config.mixture_config import MixtureConfig
from tfjax_batches.errors import ConfigError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Path, nest
from tfjax_batches.loading.fingerprint import Fingerprint
from tfjax_batches.loading.iterator import Batch, BatchIterator, FlatBatch
from tfjax_batches.loading.kept_shapes import keep_shapes
from tfjax_batches.loading.state import read_state
from tfjax_batches.pipeline.host_batches import HostBatch
from tfjax_batches.pipeline.host_pipeline import HostPipeline
from tfjax_batches.placing.assemble import Assembler
from tfjax_batches.placing.prefetcher import Prefetcher
from tfjax_batches.planning.layout import BatchLayout
from tfjax_batches.planning.plan import BatchPlan, StepPlan
from tfjax_batches.planning.policies import Shuffle
from tfjax_batches.showing.run_description import describe_run
from tfjax_batches.text.description import Description
from tfjax_batches.text.numbers import is_integer


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BatchLoader:
    """All batches of a run, each a function of its step. Made by `build`.

    Iterating gives a `BatchIterator` over `jax.Array`s. Each `iter` starts again at step 0, with
    the same batches. For several epochs, each in an order of its own, set `num_epochs` and iterate
    once: an epoch ends every `steps_per_epoch` steps.

    Attributes:
        config: A checked copy of the config.
        layouts: Global batch size → which rows each process holds, that of step 0 first.
        pipeline: What this process reads, as host batches.
        fingerprint: What the rows depend on; saved states hold what the rows so far depend on.
        sources: Dataset and split of each source, by name, in order of the names. A run of one
            dataset has one, named like the dataset.
        label_names: Names of the classes of each TFDS label that reaches the batch unchanged, by
            name: the name of label 3 is `label_names["label"][3]`. In a mixture those that all
            sources have alike.
        global_specs: Global shape, dtype and sharding of each `jax.Array` of the batch of step 0,
            by path.

    Features that `keep_on_host` names are in `batch["_host"]`, nested by path, as read-only
    NumPy arrays of this process's rows alone, which are `layout.rows(process_index)`. Take them out
    before a jitted function gets the batch: `host = batch.pop("_host")`. Their dtypes are those of
    TFDS, strings are bytes, and a feature whose size differs from example to example is an object
    array of one array per row. Padding rows are zeros, or empty. A row is a view of the memory of
    its batch, all of which lives as long as the row does: to keep one row for long, copy it.
    """

    config: Config
    layouts: Mapping[int, BatchLayout]
    pipeline: HostPipeline
    fingerprint: Fingerprint
    sources: Mapping[str, str]
    label_names: Mapping[str, tuple[str, ...]]
    global_specs: Mapping[Path, jax.ShapeDtypeStruct]
    # Counts the calls of `iter`.
    _starts: Iterator[int] = dataclasses.field(
        default_factory=functools.partial(itertools.count, 1), init=False, repr=False
    )

    @property
    def plan(self) -> BatchPlan:
        """Which example stands in which row at every step."""
        return self.pipeline.plan

    @property
    def layout(self) -> BatchLayout:
        """Which rows each process holds at step 0, and at each step of that size."""
        return next(iter(self.layouts.values()))

    def layout_at(self, step: int) -> BatchLayout:
        """Return which rows each process holds at a step.

        Args:
            step: Step, 0 <= step < num_steps.

        Returns:
            The layout of the batches of that size.

        Raises:
            IndexError: There is no such step.
        """
        return self.layouts[self.plan.rows_at(step)]

    @property
    def process_index(self) -> int:
        """The process whose rows are read here."""
        return self.pipeline.process_index

    @property
    def host_specs(self) -> Mapping[Path, FeatureSpec]:
        """Shape and dtype, of one example, of each feature that stays on the host, by path."""
        return self.pipeline.host_specs

    @property
    def element_spec(self) -> dict[str, Any]:
        """Global shape, dtype and sharding of each `jax.Array` of a batch; nested like a batch.

        Where batches change their size, those of step 0: `element_spec_at` tells the others.
        Features that stay on the host have none of the three, and are not here; `dataset()` has an
        `element_spec` of its own that shows them.
        """
        return nest(self.global_specs)

    def element_spec_at(self, step: int) -> dict[str, Any]:
        """Return global shape, dtype and sharding of each `jax.Array` of the batch of a step.

        Args:
            step: Step, 0 <= step < num_steps.

        Returns:
            A nested dict, as `element_spec`.

        Raises:
            IndexError: There is no such step.
        """
        return nest(_resize(self.global_specs, self.plan.rows_at(step)))

    @property
    def transform_names(self) -> tuple[str, ...]:
        """Place and name of each transform, in order, as `preview` has them: `"1. flip_lr"`.

        In a mixture the name of the source comes first: `"web: 1. flip_lr"`.
        """
        pairs = zip(self.sources, self.pipeline.group.sources, strict=True)
        is_mixture = isinstance(self.config, MixtureConfig)
        return tuple(
            f"{name}: {label}" if is_mixture else label
            for name, source in pairs
            for label in source.chain.labels
        )

    @property
    def source_names(self) -> tuple[str, ...]:
        """Name of each source: `_source` and `StepPlan.sources` are indices into it."""
        return tuple(self.sources)

    @property
    def num_examples(self) -> int:
        """Examples of an epoch, of all sources: those of the split, or of `filter`."""
        return self.plan.num_examples

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in one epoch; under CARRY an epoch may end within a further one.

        In a mixture, whole batches in as many rows as one epoch of each source has. Where batches
        change their size, those of the first epoch: later epochs have others.
        """
        return self.plan.steps_per_epoch

    @property
    def num_steps(self) -> int | None:
        """Steps of the run, the same on all processes; None when endless."""
        return self.plan.num_steps

    def __bool__(self) -> bool:
        """Return True, also where there is no length."""
        return True

    def __len__(self) -> int:
        """Return `num_steps`.

        Raises:
            TypeError: The run is endless.
        """
        if self.num_steps is None:
            raise TypeError(
                "A loader has a length when it has an end; num_epochs is None, which is endless. "
                "Set num_epochs, or use steps_per_epoch."
                if isinstance(self.config, BatchConfig)
                else "A loader has a length when it has an end; no source is ever used up. Set "
                "max_epochs of a Source, or let your program stop at a step."
            )
        return self.num_steps

    def __iter__(self) -> BatchIterator:
        """Return a new iterator from step 0; its thread begins to read at once.

        Raises:
            RecordError: A file is missing, or does not hold its records.
            LayoutError: The loader is one of `dry_run`, which has no devices.
        """
        if next(self._starts) == 2 and self._repeats_one_epoch:
            logging.warning(
                "tfjax_batches: iter(loader) starts again at step 0, with the order and the random "
                "values of the first time, since num_epochs=1. To train for three epochs, set "
                "num_epochs=3 and iterate once: an epoch ends every loader.steps_per_epoch steps."
            )
        return self._iterate(self.pipeline, 0, self.fingerprint)

    def plan_step(self, step: int, process_index: int | None = None) -> StepPlan:
        """Return which examples a process holds at a step, without reading any.

        Args:
            step: Step, 0 <= step < num_steps.
            process_index: A process of the layout. None: this one.

        Returns:
            Rows, examples, epochs and mask, each [process_batch].

        Raises:
            IndexError: There is no such step or process.
        """
        index = self.process_index if process_index is None else process_index
        return self.plan.plan_rows(step, self.layout_at(step).rows(index))

    def counts_at(self, step: int) -> dict[str, int]:
        """Return how many examples of each source the batches before a step hold; reads nothing.

        Args:
            step: Step, 0 <= step <= num_steps.

        Returns:
            Exact counts by name of the source, padding left out.

        Raises:
            IndexError: There is no such step.

        Example::

            tokens = loader.counts_at(batches.step)["web"] * 1024
        """
        last = self.plan.most_steps
        if not is_integer(step, 0, last):
            raise IndexError(f"A step is an integer, 0 <= step <= {last}; got {step!r}.")
        return dict(zip(self.sources, self.plan.counts_before(step), strict=True))

    def dataset(self, start_step: int = 0) -> tf.data.Dataset:
        """Return this process's batches as a `tf.data.Dataset`.

        Args:
            start_step: The first step, 0 <= start_step <= num_steps.

        Returns:
            Elements are nested dicts of tensors [process_batch, ...], `tf.RaggedTensor` where sizes
            differ from example to example. An error in a record comes as TensorFlow's own.

        Raises:
            IndexError: There is no such step.
            RecordError: A file is missing, or does not hold its records.
        """
        return self.pipeline.dataset(start_step).map(nest)

    def host_batches(self, start_step: int = 0) -> Prefetcher[HostBatch, Batch]:
        """Return an iterator over this process's batches as read-only NumPy arrays.

        It reads in `next`, has a `close()` and can be used in a `with` statement.

        Args:
            start_step: The first step, 0 <= start_step <= num_steps.

        Returns:
            An iterator over nested dicts of arrays [process_batch, ...]. Its `next` raises
            RecordError, TransformError and IteratorClosedError, as that of `BatchIterator` does.

        Raises:
            IndexError: There is no such step.
            RecordError: A file is missing, or does not hold its records.
        """
        source = self.pipeline.host_batches(start_step)
        return Prefetcher(source, nest, depth=0, get_state=lambda: source.step, cancel=source.stop)

    def preview(self, n: int = 4, source: str | None = None) -> dict[str, Batch]:
        """Return the first examples of a source before the transforms and after each of them.

        For people to look at. It reads these examples itself, and works on any process.

        Args:
            n: Examples, from 1 to those of an epoch.
            source: Name of the source. None: the only one.

        Returns:
            Stage → features as NumPy [n, ...], nested, in order of the transforms: `"decoded"`,
            then one stage for each transform by place and name, such as `"1. flip_lr"`. The last
            holds the first `n` rows of that source in the batches. Features of any size are object
            arrays, as in host batches.

        Raises:
            ConfigError: `n` is out of bounds, or `source` is not the name of a source.
            RecordError: A record cannot be read or decoded.
            TransformError: A transform fails on one of the examples.

        Example::

            for stage, features in loader.preview(2).items():
                print(stage, features["image"].shape)
        """
        if source is None and len(self.sources) == 1:
            (source,) = self.sources
        if source not in self.sources:
            raise ConfigError(
                f"A preview shows the rows of one source; got source={source!r}. Name one of "
                f"{', '.join(map(repr, self.sources))}."
            )
        stages = self.pipeline.preview(n, self.source_names.index(source))
        return {stage: nest(features) for stage, features in stages.items()}

    def describe(self) -> Description:
        """Return dataset, order, layout, features and memory, for people: `print` it.

        Notebooks show it as HTML, and a loader the same way. No record is read.
        """
        return describe_run(
            self.sources, self.config, self.layouts, self.pipeline, self.global_specs
        )

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def restore(self, state: Mapping[str, Any]) -> BatchIterator:
        """Return an iterator that goes on where the state was saved, without reading before it.

        The number of processes, mesh, device order, prefetching and threads may have changed, and
        so may `num_epochs`, and under CARRY the batch size: rows go on from the same position, and
        steps count as if all batches before had the new size. Of sizes by step, those that begin
        later may have changed. Of a mixture, the stages that begin later may have changed, and so
        may sources that only they draw from. A `block_size` and `block_columns` that were chosen
        stay those of the state. Weights of past stages may all be multiplied by a number if their
        ratios stay exactly the same in binary, as by 2.

        Args:
            state: What `BatchIterator.get_state` returned, on any process.

        Returns:
            An iterator whose first batch follows the last one that was delivered.

        Raises:
            StateError: The state is malformed, from another version, or of a run with other rows;
                the error names each field with both values, and how to go on.
        """
        plan, fingerprint = keep_shapes(self.plan, self.fingerprint, state)
        plan, step = read_state(state, plan, fingerprint)
        return self._iterate(dataclasses.replace(self.pipeline, plan=plan), step, fingerprint)

    @property
    def _repeats_one_epoch(self) -> bool:
        """Whether a second `iter` is likely meant as another epoch of training."""
        if not isinstance(self.config, BatchConfig) or self.config.num_epochs != 1:
            return False
        # Padded epochs without random values are those of evaluations, which are repeated.
        is_shuffled = self.config.shuffle is not Shuffle.NONE and not self.plan.remainder.has_mask
        return is_shuffled or bool(self.pipeline.group.sources[0].chain.seed_places)

    def _iterate(
        self, pipeline: HostPipeline, step: int, fingerprint: Fingerprint
    ) -> BatchIterator:
        return BatchIterator(pipeline, self._place, fingerprint, self.config, step)

    @functools.cached_property
    def _place(self) -> Callable[[HostBatch], FlatBatch]:
        """The function that places a host batch, which its number of rows tells the size of."""
        assemblers = {
            len(rows): Assembler(_resize(self.global_specs, size), rows)
            for size, rows in self.pipeline.rows.items()
        }
        host_paths = tuple(self.host_specs)  # of the loader itself nothing is held

        def place(host_batch: HostBatch) -> FlatBatch:
            assemble = assemblers[len(next(iter(host_batch.values())))]
            return {**assemble(host_batch), **{path: host_batch[path] for path in host_paths}}

        return place


def _resize(
    specs: Mapping[Path, jax.ShapeDtypeStruct], rows: int
) -> dict[Path, jax.ShapeDtypeStruct]:
    """Return specs of batches of so many rows."""
    return {
        path: jax.ShapeDtypeStruct((rows, *spec.shape[1:]), spec.dtype, sharding=spec.sharding)
        for path, spec in specs.items()
    }

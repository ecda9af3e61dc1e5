# SPDX-License-Identifier: Apache-2.0
"""The iterator, which delivers the batches of a run."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import jax
import numpy as np
import numpy.typing as npt

from tfjax_batches.config.batch_config import Config
from tfjax_batches.features.paths import Path, nest
from tfjax_batches.loading.fingerprint import Fingerprint
from tfjax_batches.loading.kept_shapes import keep_shapes
from tfjax_batches.loading.state import make_state, read_state
from tfjax_batches.pipeline.host_batches import HostBatch
from tfjax_batches.pipeline.host_pipeline import HostPipeline
from tfjax_batches.placing.prefetcher import Prefetcher
from tfjax_batches.placing.stats import Stats

Batch = dict[str, Any]
"""A nested dict of arrays: TFDS features by name; `_mask`, `_id`, `_host` where asked for."""

FlatBatch = dict[Path, jax.Array | npt.NDArray[np.generic]]
"""The same by path."""


class BatchIterator(Iterator[Batch]):
    """Batches of global `jax.Array`s, in order of step. Made by `iter(loader)` or `restore`.

    Use it as a context manager, or call `close`, to end its thread and free its memory.
    """

    def __init__(
        self,
        pipeline: HostPipeline,
        place: Callable[[HostBatch], FlatBatch],
        fingerprint: Fingerprint,
        config: Config,
        start_step: int,
    ) -> None:
        self._place = place
        self._fingerprint = fingerprint
        self._config = config
        self._open(pipeline, start_step)

    @property
    def step(self) -> int:
        """Index of the next batch, which is the number of batches delivered since step 0."""
        step: int = self._placed.state
        return step

    @property
    def stats(self) -> Stats:
        """What this iterator has delivered so far, and where the time went."""
        plan = self._pipeline.plan
        before, now = (plan.examples_before(s) for s in (self._start_step, self.step))
        return dataclasses.replace(self._placed.stats, examples=now - before)

    def __next__(self) -> Batch:
        """Return the batch of the next step; wait for it where it is not ready.

        An error stands in the place of its batch: earlier batches are delivered first, and each
        later call raises it again.

        Returns:
            A nested dict of global `jax.Array`s [global_batch, ...], with NumPy arrays below
            `_host` where the config names some.

        Raises:
            StopIteration: The run is over.
            RecordError: A record of the step cannot be read or decoded; names file, record, offset,
                step and process.
            TransformError: A transform fails on an example; names both.
            FeatureError: The dtype on the device cannot hold a value; names feature and value.
            IteratorClosedError: The iterator is closed.
        """
        return nest(next(self._placed))

    def __iter__(self) -> Self:
        """Return this iterator; it does not restart."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the prefetching and drop the batches that wait, in under two seconds."""
        self._placed.close()

    def get_state(self) -> dict[str, Any]:
        """Return what `BatchLoader.restore` needs to go on after the batch last delivered.

        Batches that were made ahead and not delivered do not count. Works on a closed iterator too.

        Returns:
            Plain JSON, under 2 KB for up to 20 sources, equal on all processes: saving that of one
            is enough.
        """
        plan = self._pipeline.plan
        return make_state(plan.position_of(self.step), self._fingerprint, plan.global_batch_size)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, as `BatchLoader.restore` does; opens a closed iterator again.

        Args:
            state: What `get_state` returned, on any process.

        Raises:
            StateError: As for `restore`; nothing has changed then.
        """
        plan, fingerprint = keep_shapes(self._pipeline.plan, self._fingerprint, state)
        plan, step = read_state(state, plan, fingerprint)
        self._fingerprint = fingerprint
        # First, so that no more batches than before are in memory.
        self.close()
        self._open(dataclasses.replace(self._pipeline, plan=plan), step)

    def _open(self, pipeline: HostPipeline, start_step: int) -> None:
        host_batches = pipeline.host_batches(start_step)
        self._pipeline = pipeline
        self._start_step = start_step
        self._placed = Prefetcher(
            host_batches,
            self._place,
            depth=self._config.prefetch_depth,
            max_bytes=self._config.prefetch_bytes,
            get_state=lambda: host_batches.step,
            cancel=host_batches.stop,
            stall_seconds=self._config.stall_seconds,
        )

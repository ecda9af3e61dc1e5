# SPDX-License-Identifier: Apache-2.0
"""The host batches of one iteration, which another thread can bring to an early end."""

import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from absl import logging

from tfjax_batches.errors import BatchesError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Path
from tfjax_batches.features.ragged import join_parts, split_parts
from tfjax_batches.pipeline.diagnose import FAILURES
from tfjax_batches.pipeline.groups import GroupSizes

HostBatch = Mapping[Path, npt.NDArray[np.generic]]
"""Path → array [process_batch, ...] of one step, on the host."""


class HostBatches(Iterator[HostBatch]):
    """Read-only views of memory that TensorFlow hands over and never writes again.

    One element of the dataset may hold several small steps. After a failure the same number of
    steps is read one at a time: those before the failed step are delivered, and an error that does
    not come again ends nothing.

    Args:
        make_dataset: `HostPipeline.dataset`.
        explain: Returns the error that explains why a step failed, or None.
        sizes: How the rows of steps are cut.
        host_specs: Specs of the entries that stay on the host, by path.
        start_step: First step to deliver.

    Attributes:
        step: Index of the next batch.
    """

    def __init__(
        self,
        make_dataset: Callable[..., tf.data.Dataset],
        explain: Callable[[int], BatchesError | None],
        sizes: GroupSizes,
        host_specs: Mapping[Path, FeatureSpec],
        start_step: int,
    ) -> None:
        # TensorFlow has no public way to interrupt `next`, so the pipeline looks at this itself.
        with tf.device("CPU"):
            self._stopped = tf.Variable(False, trainable=False)
        self._make_dataset = make_dataset
        self._explain = explain
        self._sizes = sizes
        self._ragged = {path: spec for path, spec in host_specs.items() if not spec.is_fixed}
        self._waiting: deque[HostBatch] = deque()
        self._retry_end: int | None = None  # up to this step, steps are read one by one
        self.step = start_step
        self._elements = self._open(sizes.steps)

    def __next__(self) -> HostBatch:
        """Return the arrays of the next step.

        Raises:
            RecordError: A record of the step cannot be read or decoded; the error names it.
            TransformError: A transform fails on an example; the error names both.
            tf.errors.OpError: The step failed for another reason.
        """
        if not self._waiting:
            self._waiting.extend(self._cut(self._next_element()))
        self.step += 1
        return self._waiting.popleft()

    def stop(self) -> None:
        """Make a `next` in progress, in whatever thread, return without reading on."""
        self._stopped.assign(True)

    def _next_element(self) -> HostBatch:
        if self._retry_end is not None and self.step >= self._retry_end:
            self._retry_end = None
            if self._sizes.steps > 1:
                self._elements = self._open(self._sizes.steps)
        try:
            return self._take()
        except FAILURES as error:
            if self._retry_end is None:
                logging.warning(
                    "tfjax_batches: step %d failed (%s); it is made once more.",
                    self.step,
                    type(error).__name__,
                )
                self._retry_end = self.step + self._sizes.steps
                self._elements = self._open(1)
                return self._next_element()
            if (cause := self._explain(self.step)) is None:
                error.add_note(f"This is step {self.step} of the loader.")
                raise
            raise cause from error

    def _open(self, steps: int) -> Iterator[Mapping[Path, Any]]:
        """Return an iterator from the present step on, with `steps` steps per element."""
        dataset = self._make_dataset(self.step, steps=steps, stopped=self._stopped)
        if self._ragged:
            dataset = dataset.map(split_parts)
        return iter(dataset.as_numpy_iterator())

    def _take(self) -> HostBatch:
        try:
            element: Mapping[Path, Any] = next(self._elements)
        except BaseException as error:
            # The iteration is over, but the threads of tf.data would read on, and keep the
            # interpreter from its end, while anything holds it: the frames of a traceback do.
            self._elements = iter(())
            traceback.clear_frames(error.__traceback__)
            raise
        joined = {path: join_parts(element[path], spec) for path, spec in self._ragged.items()}
        return {**element, **joined}

    def _cut(self, element: HostBatch) -> Iterator[HostBatch]:
        """Yield the steps of an element."""
        rows = self._sizes.rows
        for start in range(0, len(next(iter(element.values()))), rows):
            yield {path: array[start : start + rows] for path, array in element.items()}

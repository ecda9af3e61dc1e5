# SPDX-License-Identifier: Apache-2.0
"""The host batches of one iteration, which another thread can bring to an early end."""

import contextlib
import time
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
from tfjax_batches.pipeline.groups import GroupSizes
from tfjax_batches.reading.bad_record import FAILURES, reason_of

# Opening the dataset takes about as long (40 to 80 ms for images of 28 x 28, `scripts/bench.py
# first_batch`): who makes steps alone for so long has lost no more than that, and a short
# evaluation needs no dataset. Where a step is several groups, one at a time could take long.
_SECONDS_ALONE = 0.1

HostBatch = Mapping[Path, npt.NDArray[np.generic]]
"""Path → array [process_batch, ...] of one step, on the host."""


class HostBatches(Iterator[HostBatch]):
    """Read-only views of memory that TensorFlow hands over and never writes again.

    The first small steps are made one at a time, and then the dataset is opened, which makes many
    at once. One element of it may hold several small steps. After a failure its steps are made one
    at a time too: those before the failed step are delivered, and an error that does not come again
    ends nothing.

    Args:
        make_dataset: `HostPipeline.dataset`.
        make_step: Makes one step without the dataset, as `SingleSteps` does.
        explain: Returns the error that explains why a step failed, or None.
        sizes_at: Returns how the rows of a step are cut.
        host_specs: Specs of the entries that stay on the host, by path.
        start_step: First step to deliver.
        stop_step: The step after the last; None: endless.

    Attributes:
        step: Index of the next batch.
    """

    def __init__(
        self,
        make_dataset: Callable[..., tf.data.Dataset],
        make_step: Callable[[int], Mapping[Path, Any]],
        explain: Callable[[int], BatchesError | None],
        sizes_at: Callable[[int], GroupSizes],
        host_specs: Mapping[Path, FeatureSpec],
        start_step: int,
        stop_step: int | None,
    ) -> None:
        # TensorFlow has no public way to interrupt `next`, so the pipeline looks at this itself.
        with tf.device("CPU"):
            self._stopped = tf.Variable(False, trainable=False)
        self._make_dataset = make_dataset
        self._make_step = make_step
        self._explain = explain
        self._sizes_at = sizes_at
        self._ragged = {path: spec for path, spec in host_specs.items() if not spec.is_fixed}
        self._waiting: deque[HostBatch] = deque()
        self._stop_step = stop_step
        self._single_end = start_step  # steps before this one are made alone
        is_small = sizes_at(start_step).groups_per_step == 1
        self._seconds_alone = _SECONDS_ALONE if is_small else 0.0  # left
        self._elements: Iterator[Mapping[Path, Any]] | None = None  # of the steps from then on
        self.step = start_step

    def __next__(self) -> HostBatch:
        """Return the arrays of the next step.

        Raises:
            RecordError: A record of the step cannot be read or decoded; the error names it.
            TransformError: A transform fails on an example; the error names both.
            Exception: The step failed for another reason; a note tells the step.
        """
        if not self._waiting:
            self._waiting.extend(self._cut(self._next_element()))
        self.step += 1
        return self._waiting.popleft()

    def stop(self) -> None:
        """Make a `next` in progress, in whatever thread, return without reading on."""
        self._stopped.assign(True)

    def _next_element(self) -> HostBatch:
        """Return the next step, or the next few."""
        if self.step == self._stop_step:
            raise StopIteration
        if self._seconds_alone > 0:
            start = time.perf_counter()
            element = self._make_alone()
            self._seconds_alone -= time.perf_counter() - start
            return element
        if self.step < self._single_end:
            return self._make_alone()
        try:
            return self._join(self._take())
        except FAILURES as error:
            steps = self._sizes_at(self.step).steps
            self._single_end = self.step + steps
            element = self._make_alone()
            logging.warning(
                "tfjax_batches: one of %d steps from step %d on failed; each is made alone: %s",
                steps,
                self.step,
                reason_of(error),
            )
            return element

    def _make_alone(self) -> HostBatch:
        try:
            return self._join(self._make_step(self.step))
        except Exception as error:
            if (cause := self._explain(self.step)) is not None:
                raise cause from error
        # All that it needs was read and made to find the cause: the error has passed.
        try:
            return self._join(self._make_step(self.step))
        except Exception as error:
            error.add_note(f"This is step {self.step} of the loader.")
            raise

    def _take(self) -> Mapping[Path, Any]:
        """Return the next element of the dataset, which is opened at the present step.

        It is opened again after the sizes of batches that it holds.
        """
        try:
            if self._elements is not None:
                with contextlib.suppress(StopIteration):
                    return next(self._elements)
                if self._stopped.numpy():
                    raise StopIteration
            self._elements = self._open()
            return next(self._elements)
        except BaseException as error:
            # The iteration is over, but the threads of tf.data would read on, and keep the
            # interpreter from its end, while anything holds it: the frames of a traceback do.
            self._elements = None
            traceback.clear_frames(error.__traceback__)
            raise

    def _open(self) -> Iterator[Mapping[Path, Any]]:
        dataset = self._make_dataset(self.step, together=True, stopped=self._stopped)
        if self._ragged:
            dataset = dataset.map(split_parts)
        return iter(dataset.as_numpy_iterator())

    def _join(self, element: Mapping[Path, Any]) -> HostBatch:
        """Return an element with one array for each ragged feature."""
        joined = {path: join_parts(element[path], spec) for path, spec in self._ragged.items()}
        return {**element, **joined}

    def _cut(self, element: HostBatch) -> Iterator[HostBatch]:
        """Yield the steps of an element."""
        rows = self._sizes_at(self.step).rows
        for start in range(0, len(next(iter(element.values()))), rows):
            yield {path: array[start : start + rows] for path, array in element.items()}

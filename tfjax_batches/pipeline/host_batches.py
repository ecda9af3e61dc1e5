# SPDX-License-Identifier: Apache-2.0
"""The host batches of one iteration, which another thread can bring to an early end."""

import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.errors import BatchesError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.ragged import join_parts, split_parts

MakeDataset = Callable[[tf.Variable, int, bool], tf.data.Dataset]
"""Takes a variable that ends the dataset once True, the first step, and whether each step is made
by itself. An element holds the rows of one step or of several."""

HostBatch = Mapping[str, npt.NDArray[np.generic]]


class HostBatches(Iterator[HostBatch]):
    """Read-only views of memory that TensorFlow hands over and never writes again.

    Args:
        make_dataset: Makes the dataset.
        start_step: First step to deliver.
        num_rows: Rows of a step on this process.
        explain: Returns what is wrong with the records of a step that failed, or with what is made
            of them; None: nothing.
        ragged: Spec of each ragged entry, by path; it becomes an array of arrays.

    Attributes:
        step: Index of the next batch.
    """

    def __init__(
        self,
        make_dataset: MakeDataset,
        start_step: int,
        num_rows: int,
        explain: Callable[[int], BatchesError | None],
        ragged: Mapping[str, FeatureSpec],
    ) -> None:
        # TensorFlow has no public way to interrupt `next`, so the pipeline looks at this itself.
        with tf.device("CPU"):
            self._stopped = tf.Variable(False, trainable=False)
        self._make_dataset = make_dataset
        self._num_rows = num_rows
        self._explain = explain
        self._ragged = ragged
        self._one_by_one = False
        self._blocks = self._open(start_step)
        self._waiting: deque[HostBatch] = deque()
        self.step = start_step

    def __next__(self) -> HostBatch:
        """Return the arrays of the next step.

        Raises:
            RecordError: A record of the step cannot be read or decoded; it is named.
            TransformError: A transform fails on an example; both are named.
            tf.errors.OpError: The step failed for another reason.
        """
        if not self._waiting:
            try:
                block = self._next_block()
            # TensorFlow quotes the bytes of a bad record in its message, and fails to make text of
            # it.
            except (tf.errors.OpError, UnicodeDecodeError) as error:
                if not self._one_by_one:
                    # The step that failed may be a later one that was made along with this one.
                    self._one_by_one = True
                    self._blocks = self._open(self.step)
                    return next(self)
                if (cause := self._explain(self.step)) is None:
                    error.add_note(f"This is step {self.step} of the loader.")
                    raise
                raise cause from error
            self._waiting.extend(self._cut(block))
        self.step += 1
        return self._waiting.popleft()

    def _cut(self, block: HostBatch) -> Iterator[HostBatch]:
        """Yield the steps of a block."""
        num_rows = self._num_rows
        for start in range(0, len(next(iter(block.values()))), num_rows):
            yield {path: array[start : start + num_rows] for path, array in block.items()}

    def _open(self, step: int) -> Iterator[Mapping[str, Any]]:
        dataset = self._make_dataset(self._stopped, step, self._one_by_one)
        if self._ragged:
            dataset = dataset.map(split_parts)
        return iter(dataset.as_numpy_iterator())

    def _next_block(self) -> HostBatch:
        try:
            block: Mapping[str, Any] = next(self._blocks)
        except BaseException as error:
            # It is over, but the threads of tf.data would read on, and keep the interpreter from
            # its end, as long as anything holds the iterator: the frames of a traceback do.
            self._blocks = iter(())
            traceback.clear_frames(error.__traceback__)
            raise
        joined = {path: join_parts(block[path], spec) for path, spec in self._ragged.items()}
        return {**block, **joined}

    def stop(self) -> None:
        """Make a `next` in progress, in whatever thread, return without reading on."""
        self._stopped.assign(True)

# SPDX-License-Identifier: Apache-2.0
"""The host batches of one iteration, which another thread can bring to an early end."""

import traceback
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.errors import RecordError

MakeDataset = Callable[[tf.Variable, int, bool], tf.data.Dataset]
"""Takes a variable that ends the dataset once True, the first step, and whether each step is made
by itself."""


class HostBatches(Iterator[Mapping[str, npt.NDArray[np.generic]]]):
    """Read-only views of memory that TensorFlow hands over and never writes again.

    Args:
        make_dataset: Makes the dataset.
        start_step: First step to deliver.
        explain: Returns what is wrong with the records of a step that failed; None: nothing.

    Attributes:
        step: Index of the next batch.
    """

    def __init__(
        self,
        make_dataset: MakeDataset,
        start_step: int,
        explain: Callable[[int], RecordError | None],
    ) -> None:
        # TensorFlow has no public way to interrupt `next`, so the pipeline looks at this itself.
        with tf.device("CPU"):
            self._stopped = tf.Variable(False, trainable=False)
        self._make_dataset = make_dataset
        self._arrays = make_dataset(self._stopped, start_step, False).as_numpy_iterator()
        self._explain = explain
        self._one_by_one = False
        self.step = start_step

    def __next__(self) -> Mapping[str, npt.NDArray[np.generic]]:
        """Return the arrays of the next step.

        Raises:
            RecordError: A record of the step cannot be read or decoded; it is named.
            tf.errors.OpError: The step failed for another reason.
        """
        try:
            arrays = self._next_arrays()
        # TensorFlow quotes the bytes of a bad record in its message, and fails to make text of it.
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            if not self._one_by_one:
                # The step that failed may be a later one that was made along with this one.
                self._one_by_one = True
                dataset = self._make_dataset(self._stopped, self.step, True)
                self._arrays = dataset.as_numpy_iterator()
                return next(self)
            if (cause := self._explain(self.step)) is None:
                error.add_note(f"This is step {self.step} of the loader.")
                raise
            raise cause from error
        self.step += 1
        return arrays

    def _next_arrays(self) -> Mapping[str, npt.NDArray[np.generic]]:
        try:
            arrays: Mapping[str, npt.NDArray[np.generic]] = next(self._arrays)
        except BaseException as error:
            # It is over, but the threads of tf.data would read on, and keep the interpreter from
            # its end, as long as anything holds the iterator: the frames of a traceback do.
            self._arrays = iter(())
            traceback.clear_frames(error.__traceback__)
            raise
        return arrays

    def stop(self) -> None:
        """Make a `next` in progress, in whatever thread, return without reading on."""
        self._stopped.assign(True)

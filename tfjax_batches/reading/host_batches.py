# SPDX-License-Identifier: Apache-2.0
"""The host batches of one iteration, which another thread can bring to an early end."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import tensorflow as tf


class HostBatches(Iterator[Mapping[str, npt.NDArray[np.generic]]]):
    """Read-only views of memory that TensorFlow hands over and never writes again.

    Args:
        make_dataset: Makes the dataset from `start_step` on; it ends once the variable that it is
            given is True.
        start_step: First step to deliver.

    Attributes:
        step: Index of the next batch.
    """

    def __init__(
        self, make_dataset: Callable[[tf.Variable], tf.data.Dataset], start_step: int
    ) -> None:
        # TensorFlow has no public way to interrupt `next`, so the pipeline looks at this itself.
        with tf.device("CPU"):
            self._stopped = tf.Variable(False, trainable=False)
        self._arrays = make_dataset(self._stopped).as_numpy_iterator()
        self.step = start_step

    def __next__(self) -> Mapping[str, npt.NDArray[np.generic]]:
        arrays: Mapping[str, npt.NDArray[np.generic]] = next(self._arrays)
        self.step += 1
        return arrays

    def stop(self) -> None:
        """Make a `next` in progress, in whatever thread, return without reading on."""
        self._stopped.assign(True)

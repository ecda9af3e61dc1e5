# SPDX-License-Identifier: Apache-2.0
"""What becomes of the records of one source of a run."""

import dataclasses

import tensorflow as tf

from tfjax_batches.features.rows import GroupFeatures
from tfjax_batches.preprocess.chain import Chain
from tfjax_batches.reading.decode import Decoder


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SourceFunction:
    """A function of records that decodes and transforms them.

    Attributes:
        decoder: Makes features of records.
        chain: The transforms.
    """

    decoder: Decoder
    chain: Chain

    @property
    def maps_each_example(self) -> bool:
        """Whether it works on one example after the other."""
        return self.decoder.maps_each_example or self.chain.maps_each_example

    def __call__(self, records: tf.Tensor, seeds: tf.Tensor) -> GroupFeatures:
        """Return features [n, ...] by path, of records string[n] and seeds int32[n, places, 2]."""
        return self.chain(self.decoder.decode(records), seeds)

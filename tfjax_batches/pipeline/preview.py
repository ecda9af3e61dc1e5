# SPDX-License-Identifier: Apache-2.0
"""The features of a few examples after each transform, for people to look at."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.features.ragged import join_parts, split_parts
from tfjax_batches.features.rows import GroupFeatures
from tfjax_batches.planning.seeds import Int32Array
from tfjax_batches.preprocess.chain import Chain
from tfjax_batches.preprocess.tracing import Specs
from tfjax_batches.reading.decode import Decoder

DECODED = "decoded"
"""Label of the features before any transform."""


def preview_stages(
    decoder: Decoder, chain: Chain, records: npt.NDArray[np.object_], seeds: Int32Array
) -> dict[str, dict[str, npt.NDArray[np.generic]]]:
    """Return the features before the chain and after each transform, as NumPy.

    Args:
        decoder: What turns records into features.
        chain: The transforms.
        records: Stored bytes, object[n]; n is a multiple of the chain's `row_multiple`.
        seeds: int32[n, places, 2].

    Returns:
        BoundTransform → path → array [n, ...], in order; ragged features as in host batches.
    """

    def run(records: tf.Tensor, seeds: tf.Tensor) -> dict[str, Any]:
        features: GroupFeatures = decoder.decode(records)
        stages = {DECODED: split_parts(features)}
        for transform in chain.transforms:
            features = transform(features, seeds)
            stages[transform.label] = split_parts(features)
        return stages

    found = tf.function(run, autograph=False)(tf.constant(list(records)), tf.constant(seeds))
    specs = {DECODED: chain.before, **{each.label: each.specs for each in chain.transforms}}
    return {label: _to_arrays(found[label], specs[label]) for label in specs}


def _to_arrays(values: Mapping[str, Any], specs: Specs) -> dict[str, npt.NDArray[np.generic]]:
    return {
        path: np.asarray(values[path])
        if spec.is_fixed
        else join_parts([np.asarray(part) for part in values[path]], spec)
        for path, spec in specs.items()
    }

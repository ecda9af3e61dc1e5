# SPDX-License-Identifier: Apache-2.0
"""The features of a few examples after each transform, for people to look at."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Path
from tfjax_batches.features.ragged import join_parts, split_parts
from tfjax_batches.features.rows import GroupFeatures
from tfjax_batches.pipeline.plain_call import call_plainly
from tfjax_batches.pipeline.planned_reader import SourceRecords
from tfjax_batches.preprocess.chain import Chain
from tfjax_batches.reading.decode import Decoder

DECODED = "decoded"
"""Label of the features before any transform."""


def preview_stages(
    decoder: Decoder, chain: Chain, group: SourceRecords
) -> dict[str, dict[Path, npt.NDArray[np.generic]]]:
    """Return the features of a group before the chain and after each transform, as NumPy.

    Args:
        decoder: Makes features of records.
        chain: The transforms.
        group: A multiple of the chain's `row_multiple` rows.

    Returns:
        Stage → path → array [n, ...], in order; ragged features as in host batches.
    """
    records, _, seeds = group
    specs = {DECODED: chain.before, **{each.label: each.specs for each in chain.transforms}}

    def run(records: tf.Tensor, seeds: tf.Tensor) -> dict[str, Any]:
        features: GroupFeatures = decoder.decode(records)
        stages = {DECODED: split_parts(features)}
        for transform in chain.transforms:
            features = transform(features, seeds)
            stages[transform.label] = split_parts(features)
        return stages

    arguments = tf.constant(list(records)), tf.constant(seeds)
    traced = tf.function(run, autograph=False).get_concrete_function(*arguments)
    found = call_plainly(traced, *arguments)
    return {
        stage: {path: _to_array(found[stage][path], spec) for path, spec in specs[stage].items()}
        for stage in specs
    }


def _to_array(value: Any, spec: FeatureSpec) -> npt.NDArray[np.generic]:
    if spec.is_fixed:
        return np.asarray(value)
    return join_parts([np.asarray(part) for part in value], spec)

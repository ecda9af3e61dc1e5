# SPDX-License-Identifier: Apache-2.0
"""Names of labels, as TFDS knows them."""

from collections.abc import Iterable

import tensorflow_datasets as tfds

from tfjax_batches.reading.feature_decoder import leaf_features


def find_label_names(
    features: tfds.features.FeaturesDict, paths: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes of each `ClassLabel` among the paths, by path.

    Args:
        features: TFDS's description of the records.
        paths: Features to look at; a sequence of labels counts as labels.

    Returns:
        Path → names, where the name of label i is the i-th. A `ClassLabel` that knows neither
        names nor their number is left out.
    """
    known = leaf_features(features)
    labels = {path: _element(known[path]) for path in paths if path in known}
    return {
        path: tuple(label.names)
        for path, label in labels.items()
        if isinstance(label, tfds.features.ClassLabel) and label.num_classes is not None
    }


def _element(feature: tfds.features.FeatureConnector) -> tfds.features.FeatureConnector:
    while isinstance(feature, tfds.features.Sequence):
        feature = feature.feature
    return feature

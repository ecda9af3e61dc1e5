# SPDX-License-Identifier: Apache-2.0
"""The class names of labels, as TFDS knows them."""

from collections.abc import Iterable

import tensorflow_datasets as tfds

from tfjax_batches.reading.feature_decoder import features_by_path


def find_label_names(
    features: tfds.features.FeaturesDict, paths: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the class names of each `ClassLabel` among some features.

    Args:
        features: TFDS's description of the records.
        paths: The features to look at. A sequence of labels counts as labels.

    Returns:
        Path → names; the i-th is the name of label i. A `ClassLabel` without names and without a
        number of classes is left out.
    """
    known = features_by_path(features)
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

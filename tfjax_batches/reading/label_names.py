# SPDX-License-Identifier: Apache-2.0
"""The class names of labels, as TFDS knows them."""

from collections.abc import Iterable

import tensorflow_datasets as tfds

from tfjax_batches.features.paths import Path, path_text
from tfjax_batches.reading.feature_decoder import element_feature, features_by_path


def find_label_names(
    features: tfds.features.FeaturesDict, paths: Iterable[Path]
) -> dict[str, tuple[str, ...]]:
    """Return the class names of each `ClassLabel`, or sequence of them, at some paths, by name.

    The i-th name is that of label i. A `ClassLabel` without names and without a number of classes
    is left out.
    """
    known = features_by_path(features)
    labels = {path: element_feature(known[path]) for path in paths if path in known}
    return {
        path_text(path): tuple(label.names)
        for path, label in labels.items()
        if isinstance(label, tfds.features.ClassLabel) and label.num_classes is not None
    }

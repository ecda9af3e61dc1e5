# SPDX-License-Identifier: Apache-2.0
"""From serialized `tf.train.Example` records to feature tensors, a group at a time.

Groups are parsed with `tf.io.parse_example` and decoded with TFDS's own feature code, so values
are those of `tfds.load`.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import FeatureError, nearest_hint


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSpec:
    """Shape and dtype of one feature of one example."""

    shape: tuple[int, ...]
    dtype: np.dtype


class Decoder:
    """Turns records into the features asked for.

    Args:
        features: TFDS's description of the records.
        names: Features to parse, by path (`"objects/bbox"`); the path of a nested dict means all
            below it. None: all.
        dataset: The dataset's name, for messages.

    Attributes:
        specs: `FeatureSpec` of each feature by path, sorted by path.

    Raises:
        FeatureError: A name is unknown, or a feature has no shape known before reading, or is
            a string.
    """

    def __init__(
        self, features: tfds.features.FeaturesDict, names: Iterable[str] | None, dataset: str
    ) -> None:
        leaves = _leaf_features(features)
        chosen = sorted(leaves) if names is None else _choose(leaves, names, dataset)
        _refuse_shapeless({path: leaves[path] for path in chosen}, dataset)
        self._features = {path: leaves[path] for path in chosen}
        all_specs = features.tf_example_spec
        self._example_spec = {path: all_specs[path] for path in chosen}
        self.specs: Mapping[str, FeatureSpec] = {
            path: FeatureSpec(shape=tuple(feature.shape), dtype=np.dtype(feature.np_dtype))
            for path, feature in self._features.items()
        }

    def decode(self, records: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return tensors [n, ...] by path, from n serialized examples (string[n])."""
        parsed = tf.io.parse_example(records, self._example_spec)
        return {
            path: self._decode_feature(path, feature, parsed[path])
            for path, feature in self._features.items()
        }

    def _decode_feature(
        self, path: str, feature: tfds.features.FeatureConnector, stored: tf.Tensor
    ) -> tf.Tensor:
        # A tf.train.Example has three dtypes; the feature's own is restored before decoding.
        stored = tf.cast(stored, feature.get_serialized_info().tf_dtype)
        values = feature.decode_batch_example(stored)
        return tf.ensure_shape(values, [None, *self.specs[path].shape])


def _leaf_features(
    features: tfds.features.FeaturesDict, prefix: str = ""
) -> dict[str, tfds.features.FeatureConnector]:
    leaves = {}
    for name, feature in features.items():
        if isinstance(feature, tfds.features.FeaturesDict):
            leaves.update(_leaf_features(feature, f"{prefix}{name}/"))
        else:
            leaves[f"{prefix}{name}"] = feature
    return leaves


def _choose(leaves: Iterable[str], names: Iterable[str], dataset: str) -> list[str]:
    chosen: set[str] = set()
    for name in names:
        below = [path for path in leaves if path == name or path.startswith(f"{name}/")]
        if not below:
            raise FeatureError(
                f"features names features of the dataset; {dataset} has no {name!r}. "
                f"{nearest_hint(name, leaves)}"
            )
        chosen.update(below)
    return sorted(chosen)


def _refuse_shapeless(features: Mapping[str, tfds.features.FeatureConnector], dataset: str) -> None:
    """Raise one error for all features that cannot become an array of known shape."""
    faults = {path: why for path, f in features.items() if (why := _why_shapeless(f))}
    if faults:
        listed = "\n".join(f"  {path}: {why}" for path, why in faults.items())
        good = tuple(path for path in features if path not in faults)
        raise FeatureError(
            f"A feature on its way to a device has a fixed shape and is no string; of {dataset} "
            f"these are not so:\n{listed}\nLeave them out: features={good!r}."
        )


def _why_shapeless(feature: tfds.features.FeatureConnector) -> str | None:
    shape, dtype = feature.shape, feature.np_dtype
    if isinstance(shape, dict) or isinstance(dtype, dict):
        return f"a {type(feature).__name__} of several parts"
    if None in shape:
        return f"shape {tuple(shape)}"
    if np.dtype(dtype).kind in "OSU":
        return "a string"
    stored = feature.get_serialized_info()
    if isinstance(stored, dict) or None in stored.shape or stored.sequence_rank > 1:
        return f"a {type(feature).__name__} stored with variable length"
    return None

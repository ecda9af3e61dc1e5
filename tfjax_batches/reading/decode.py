# SPDX-License-Identifier: Apache-2.0
"""From serialized `tf.train.Example` records to feature tensors, a group at a time.

Groups are parsed with `tf.io.parse_example` and decoded with TFDS's own feature code, so values
are those of `tfds.load`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import FeatureError, nearest_hint
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import choose_paths
from tfjax_batches.features.ragged import length_path, pad_rows, padded_specs
from tfjax_batches.reading.feature_decoder import FeatureDecoder, leaf_features


class Decoder:
    """Turns records into the features asked for, and parses no other.

    Args:
        features: TFDS's description of the records.
        names: Features to parse, by path (`"objects/bbox"`); the path of a nested dict means all
            below it. None: all.
        dataset: The dataset's name, for messages.
        encoded: Paths of features whose stored bytes stay as they are, for a transform that
            decodes them itself.
        pad_to: Length of the first dimension by path as `names`, where that is the variable one.
            Adds the length before as `<path>_length`, int32.

    Attributes:
        specs: `FeatureSpec` of each feature by path, sorted by path.
        parsed: Paths of the features that are parsed, sorted; no length is among them.
        padded: Paths of the features that `pad_to` names.

    Raises:
        FeatureError: A name is unknown, `encoded` names what is not stored as one string of
            bytes, or images of another dtype than uint8, or `pad_to` what it cannot make dense.
    """

    def __init__(
        self,
        features: tfds.features.FeaturesDict,
        names: Iterable[str] | None,
        dataset: str,
        encoded: Iterable[str] = (),
        pad_to: Mapping[str, int] | None = None,
    ) -> None:
        known = leaf_features(features)
        chosen = sorted(known)
        if names is not None:
            chosen = choose_paths(known, names, f"features names features of {dataset}")
        left_encoded = frozenset(encoded)
        for path in sorted(left_encoded):
            _check_encoded(path, {path: known[path] for path in chosen}, dataset)
        self.parsed = tuple(chosen)
        self._leaves = {
            path: FeatureDecoder(path, known[path], encoded=path in left_encoded) for path in chosen
        }
        self._parse_specs: dict[str, Any] = {}
        for leaf in self._leaves.values():
            self._parse_specs |= leaf.parse_specs
        specs = {path: leaf.spec for path, leaf in self._leaves.items()}
        self._pad_to = _choose_lengths(specs, pad_to or {}, dataset)
        self.padded = frozenset(self._pad_to)
        for path, length in self._pad_to.items():
            specs |= padded_specs(path, specs[path], length)
        self.specs: Mapping[str, FeatureSpec] = dict(sorted(specs.items()))

    @property
    def maps_each_example(self) -> bool:
        """Whether any feature of a group is decoded one example after the other."""
        return any(leaf.is_decoded_by_row for leaf in self._leaves.values())

    # Nothing in here, nor in TFDS's decoders, is Python for AutoGraph to turn into TensorFlow; to
    # look through all of it takes a second before the first batch.
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def decode(self, records: tf.Tensor) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """Return values [n, ...] by path, from n serialized examples (string[n]).

        Ragged where `specs` has a size of None; fastest where n is static.
        """
        parsed = tf.io.parse_example(records, self._parse_specs)
        values = {path: leaf.decode(parsed) for path, leaf in self._leaves.items()}
        for path, length in self._pad_to.items():
            values |= pad_rows(path, values[path], length)
        return values


def _check_encoded(
    path: str, features: Mapping[str, tfds.features.FeatureConnector], dataset: str
) -> None:
    rule = f"A transform's encoded names features of {dataset} that are parsed"
    if path not in features:
        raise FeatureError(
            f"{rule}; {path!r} is none. {nearest_hint(path, features)} A transform that decodes a "
            "feature itself stands in front of any rename, and names one of features=(…)."
        )
    stored = features[path].get_serialized_info()
    if (
        isinstance(stored, dict)
        or stored.shape != ()
        or np.dtype(stored.np_dtype).kind not in "OSU"
    ):
        raise FeatureError(
            f"{rule}, each stored as one string of bytes; {path!r} is stored as {stored}. "
            "Leave it out of encoded: the transform gets it decoded."
        )
    feature = features[path]
    if isinstance(feature, tfds.features.Image) and feature.np_dtype != np.uint8:
        raise FeatureError(
            f"{rule}, images of uint8: others are stored in bytes that no decoder of images reads "
            f"right; {path!r} is of {np.dtype(feature.np_dtype).name}. Leave decoding to the "
            "reader: put resize or a crop in place of the op that decodes."
        )


def _choose_lengths(
    specs: Mapping[str, FeatureSpec], pad_to: Mapping[str, int], dataset: str
) -> dict[str, int]:
    """Return the length of each feature that `pad_to` names, once all can be made dense."""
    lengths: dict[str, int] = {}
    for name, length in pad_to.items():
        rule = f"pad_to names features of {dataset} that are parsed"
        for path in choose_paths(specs, [name], rule):
            if lengths.setdefault(path, length) != length:
                raise FeatureError(
                    f"pad_to gives a feature one length; {path!r} gets {lengths[path]} and "
                    f"{length}. Name it once, by itself or by a path above it."
                )
    for path in lengths:
        if not specs[path].is_paddable:
            raise FeatureError(
                "pad_to cuts or fills a first dimension that varies, where no other does; "
                f"{path!r} of {dataset} is {specs[path].describe()}. Leave it out of pad_to"
                f"{'' if specs[path].is_fixed else f'; keep_on_host=({path!r},) takes any shape'}."
            )
        if length_path(path) in specs:
            raise FeatureError(
                f"pad_to adds the lengths of {path!r} as {length_path(path)!r}; {dataset} has a "
                "feature of that name. Leave either out with features=(…)."
            )
    return lengths

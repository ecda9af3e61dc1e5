# SPDX-License-Identifier: Apache-2.0
"""From serialized `tf.train.Example` records to feature tensors, a group at a time.

A group is parsed with `tf.io.parse_example` and decoded with TFDS's own code, so its values equal
those of `tfds.load`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import (
    Name,
    Path,
    choose_paths,
    feature_hint,
    find_feature,
    path_text,
    shortest_name,
)
from tfjax_batches.features.ragged import length_path, pad_rows, padded_specs
from tfjax_batches.reading.feature_decoder import (
    FeatureDecoder,
    features_by_path,
    is_parsable,
)


class Decoder:
    """Turns records into features; parses only those that are asked for.

    Args:
        features: TFDS's description of the records.
        names: Features to parse; a dict means all features below it. None: all features.
        dataset: The dataset's name, for messages.
        encoded: Features to return as their stored bytes.
        pad_to: Length of the first dim by name (as in `names`), for features in which only that
            dim varies. Adds the length before padding as `<name>_length`, int32.

    Attributes:
        specs: `FeatureSpec` of each feature by path, sorted by path.
        parsed: Paths of the features that are parsed, sorted; without the lengths.
        padded: Paths of the features that `pad_to` names.
        key: Equal for decoders that make the same features of the same records.

    Raises:
        FeatureError: A name is unknown, or names a feature that cannot stay encoded or be padded.
    """

    def __init__(
        self,
        features: tfds.features.FeaturesDict,
        names: Iterable[Name] | None,
        dataset: str,
        encoded: Iterable[Name] = (),
        pad_to: Mapping[Any, int] | None = None,
    ) -> None:
        known = features_by_path(features)
        chosen = sorted(known)
        if names is not None:
            chosen = choose_paths(known, names, f"features must name features of {dataset}")
        self.parsed = tuple(chosen)
        parsed = {path: known[path] for path in chosen}
        _check_parsable(parsed, known, dataset)
        left_encoded = {_find_encoded(name, parsed, dataset) for name in encoded}
        self._decoders = {
            path: FeatureDecoder(path, feature, encoded=path in left_encoded)
            for path, feature in parsed.items()
        }
        self._parse_specs: dict[str, Any] = {}
        for decoder in self._decoders.values():
            self._parse_specs |= decoder.parse_specs
        specs = {path: decoder.spec for path, decoder in self._decoders.items()}
        self._pad_to = _choose_lengths(specs, pad_to or {}, dataset)
        self.padded = frozenset(self._pad_to)
        for path, length in self._pad_to.items():
            specs |= padded_specs(path, specs[path], length)
        self.specs: Mapping[Path, FeatureSpec] = dict(sorted(specs.items()))
        # TFDS makes features again of their JSON, which it writes beside the records.
        stored = [(p, json.dumps(f.to_json()), p in left_encoded) for p, f in parsed.items()]
        self.key = repr((stored, sorted(self._pad_to.items())))

    @property
    def maps_each_example(self) -> bool:
        """Whether any feature of a group is decoded one example after the other."""
        return any(decoder.maps_each_example for decoder in self._decoders.values())

    # Neither this code nor TFDS's decoders need AutoGraph, which would take a second to convert
    # them before the first batch.
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def decode(self, records: tf.Tensor) -> dict[Path, tf.Tensor | tf.RaggedTensor]:
        """Return the features of some examples.

        Args:
            records: string[n], serialized examples; decoded fastest where n is static.

        Returns:
            Values [n, ...] by path, ragged where `specs` has a size of None.
        """
        parsed = tf.io.parse_example(records, self._parse_specs)
        values = {path: decoder.decode(parsed) for path, decoder in self._decoders.items()}
        for path, length in self._pad_to.items():
            values |= pad_rows(path, values[path], length)
        return values

    def each_feature(self) -> Iterator[tuple[str, FeatureSpec, Callable[[tf.Tensor], Any]]]:
        """Yield name, spec and function of each feature, to decode it apart from the others."""
        for path, decoder in self._decoders.items():
            yield path_text(path), decoder.spec, decoder.decode_records


def _check_parsable(
    features: Mapping[Path, tfds.features.FeatureConnector], known: Iterable[Path], dataset: str
) -> None:
    """Raise one error for all features whose sizes cannot be told from their records."""
    refused = [shortest_name(path, known) for path in features if not is_parsable(features[path])]
    if refused:
        good = tuple(n for p in features if (n := shortest_name(p, known)) not in refused)
        raise FeatureError(
            "TFDS parses a feature with one unknown size, or with an encoding; "
            f"{', '.join(map(repr, refused))} of {dataset} have more unknown sizes. Leave them "
            f"out: features={good!r}; or prepare the dataset with encoding='zlib'."
        )


def _find_encoded(
    name: Name, features: Mapping[Path, tfds.features.FeatureConnector], dataset: str
) -> Path:
    """Return the path of a feature that a transform takes as stored, after checking that it can."""
    rule = f"A transform's encoded must name parsed features of {dataset}"
    if (path := find_feature(name, features)) is None:
        raise FeatureError(
            f"{rule}; {name!r} is not one. {feature_hint(name, features)} Put a transform that "
            "decodes a feature before any that renames it, and name a feature of features=(…)."
        )
    feature = features[path]
    stored = feature.get_serialized_info()
    is_one_string = (
        not isinstance(stored, dict)
        and stored.shape == ()
        and np.dtype(stored.np_dtype).kind in "OSU"
    )
    # Image ops decode other dtypes wrongly.
    is_other_image = isinstance(feature, tfds.features.Image) and feature.np_dtype != np.uint8
    if is_other_image or not is_one_string:
        raise FeatureError(
            f"{rule} that are stored as one byte string, and images must be uint8; {name!r} is "
            f"{np.dtype(feature.np_dtype).name}, stored as {stored}. Leave it out of encoded, or "
            "replace the op that decodes by resize or a crop; it is then decoded before the ops."
        )
    return path


def _choose_lengths(
    specs: Mapping[Path, FeatureSpec], pad_to: Mapping[Any, int], dataset: str
) -> dict[Path, int]:
    """Return the length by path of each feature that `pad_to` names, after checking each."""
    lengths: dict[Path, int] = {}
    for name, length in pad_to.items():
        paths = choose_paths(specs, [name], f"pad_to must name parsed features of {dataset}")
        if twice := sorted(lengths.keys() & paths):
            raise FeatureError(
                f"pad_to must name each feature once; {path_text(twice[0])!r} is named again by "
                f"{name!r}. Leave one of them out."
            )
        lengths |= dict.fromkeys(paths, length)
    for path in lengths:
        name = shortest_name(path, specs)
        if not specs[path].is_paddable:
            raise FeatureError(
                "pad_to needs a feature in which only the first dim varies; "
                f"{name!r} of {dataset} is {specs[path].describe()}. Leave it out of pad_to"
                f"{'' if specs[path].is_fixed else f'; keep_on_host=({name!r},) takes any shape'}."
            )
        if length_path(path) in specs:
            raise FeatureError(
                f"pad_to adds the lengths of {name!r} as {path_text(length_path(path))!r}, but "
                f"{dataset} has a feature of that name. Leave one of them out with features=(…)."
            )
    return lengths

# SPDX-License-Identifier: Apache-2.0
"""From serialized `tf.train.Example` records to feature tensors, a group at a time.

Groups are parsed with `tf.io.parse_example` and decoded with TFDS's own feature code, so values
are those of `tfds.load`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import FeatureError, nearest_hint
from tfjax_batches.reading.leaf import FeatureSpec, Leaf, leaf_features
from tfjax_batches.reading.ragged import length_path, pad_rows, padded_specs


class Decoder:
    """Turns records into the features asked for, and parses no other.

    Args:
        features: TFDS's description of the records.
        names: Features to parse, by path (`"objects/bbox"`); the path of a nested dict means all
            below it. None: all.
        dataset: The dataset's name, for messages.
        encoded: Paths of features whose stored bytes stay as they are, for an op that decodes
            them itself.
        keep_on_host: Those of the features that no device is to hold, by path as `names`.
        pad_to: Length of the first dimension by path as `names`, where that is the variable one.
            Adds the length before as `<path>_length`, int32, which stays where its feature is.

    Attributes:
        specs: `FeatureSpec` of each feature by path, sorted by path.
        host_paths: Paths of the features that `keep_on_host` names.

    Raises:
        FeatureError: A name is unknown, or `pad_to` names what it cannot make dense.
    """

    def __init__(
        self,
        features: tfds.features.FeaturesDict,
        names: Iterable[str] | None,
        dataset: str,
        encoded: Iterable[str] = (),
        keep_on_host: Iterable[str] = (),
        pad_to: Mapping[str, int] | None = None,
    ) -> None:
        known = leaf_features(features)
        chosen = sorted(known)
        if names is not None:
            chosen = _choose(known, names, f"features names features of {dataset}")
        self._leaves = {
            path: Leaf(path, known[path], encoded=path in set(encoded)) for path in chosen
        }
        self._parse_specs: dict[str, Any] = {}
        for leaf in self._leaves.values():
            self._parse_specs |= leaf.parse_specs
        specs = {path: leaf.spec for path, leaf in self._leaves.items()}
        self._pad_to = _choose_lengths(specs, pad_to or {}, dataset)
        rule = f"keep_on_host names features of {dataset} that are parsed"
        host = _choose(specs, keep_on_host, rule)
        self.host_paths = frozenset(
            [*host, *(length_path(path) for path in host if path in self._pad_to)]
        )
        for path, length in self._pad_to.items():
            specs |= padded_specs(path, specs[path], length)
        self.specs: Mapping[str, FeatureSpec] = dict(sorted(specs.items()))

    @property
    def is_by_row(self) -> bool:
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


def check_device_features(decoder: Decoder, dataset: str) -> None:
    """Raise one error for all features that go to a device and that none can hold.

    Raises:
        FeatureError: Names each string and each feature without a fixed shape.
    """
    specs = {p: spec for p, spec in decoder.specs.items() if p not in decoder.host_paths}
    faults = {path: why for path, spec in specs.items() if (why := _why_not_on_device(spec))}
    if faults:
        listed = "\n".join(f"  {path}: {why}" for path, why in faults.items())
        good = tuple(path for path in decoder.specs if path not in faults)
        host = tuple(sorted({*decoder.host_paths, *faults}))
        lengths = {p: 16 for p in faults if specs[p].is_paddable and not specs[p].is_string}
        pad = f"; or give them a length, such as pad_to={lengths!r}" if lengths else ""
        raise FeatureError(
            f"A feature on its way to a device has a fixed shape and is no string; of {dataset} "
            f"these are not so:\n{listed}\nLeave them out: features={good!r}; or leave them on "
            f"the host: keep_on_host={host!r}{pad}."
        )


def _why_not_on_device(spec: FeatureSpec) -> str | None:
    return spec.describe() if spec.is_string or not spec.is_fixed else None


def _choose_lengths(
    specs: Mapping[str, FeatureSpec], pad_to: Mapping[str, int], dataset: str
) -> dict[str, int]:
    """Return the length of each feature that `pad_to` names, once all can be made dense."""
    lengths: dict[str, int] = {}
    for name, length in pad_to.items():
        rule = f"pad_to names features of {dataset} that are parsed"
        for path in _choose(specs, [name], rule):
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


def _choose(known: Iterable[str], names: Iterable[str], rule: str) -> list[str]:
    """Return the known paths that the names stand for, sorted."""
    chosen: set[str] = set()
    for name in names:
        below = [path for path in known if path == name or path.startswith(f"{name}/")]
        if not below:
            raise FeatureError(f"{rule}; {name!r} is none. {nearest_hint(name, known)}")
        chosen.update(below)
    return sorted(chosen)

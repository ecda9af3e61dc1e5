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

    Attributes:
        specs: `FeatureSpec` of each feature by path, sorted by path.
        host_paths: Paths of the features that `keep_on_host` names.

    Raises:
        FeatureError: A name is unknown.
    """

    def __init__(
        self,
        features: tfds.features.FeaturesDict,
        names: Iterable[str] | None,
        dataset: str,
        encoded: Iterable[str] = (),
        keep_on_host: Iterable[str] = (),
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
        self.specs: Mapping[str, FeatureSpec] = {
            path: leaf.spec for path, leaf in self._leaves.items()
        }
        rule = f"keep_on_host names features of {dataset} that are parsed"
        self.host_paths = frozenset(_choose(self.specs, keep_on_host, rule))

    @property
    def is_by_row(self) -> bool:
        """Whether any feature of a group is decoded one example after the other."""
        return any(leaf.is_decoded_by_row for leaf in self._leaves.values())

    def decode(self, records: tf.Tensor) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """Return values [n, ...] by path, from n serialized examples (string[n]).

        Ragged where `specs` has a size of None; fastest where n is static.
        """
        parsed = tf.io.parse_example(records, self._parse_specs)
        return {path: leaf.decode(parsed) for path, leaf in self._leaves.items()}


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
        raise FeatureError(
            f"A feature on its way to a device has a fixed shape and is no string; of {dataset} "
            f"these are not so:\n{listed}\nLeave them out: features={good!r}; or leave them on "
            f"the host: keep_on_host={host!r}."
        )


def _why_not_on_device(spec: FeatureSpec) -> str | None:
    if not spec.is_fixed:
        return f"{'strings' if spec.is_string else spec.dtype} of shape {spec.shape}"
    return "a string" if spec.is_string else None


def _choose(known: Iterable[str], names: Iterable[str], rule: str) -> list[str]:
    """Return the known paths that the names stand for, sorted."""
    chosen: set[str] = set()
    for name in names:
        below = [path for path in known if path == name or path.startswith(f"{name}/")]
        if not below:
            raise FeatureError(f"{rule}; {name!r} is none. {nearest_hint(name, known)}")
        chosen.update(below)
    return sorted(chosen)

# SPDX-License-Identifier: Apache-2.0
"""One leaf of a dataset's features: how it is stored, and how a group of it is decoded.

A leaf has one array per example. Dicts are no leaves, within sequences too: of a
`Sequence({"box": BBoxFeature()})` at `objects` the leaf is `objects/box`, a sequence of boxes,
which is how TFDS stores it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.rows import Example, map_rows, to_row


class FeatureDecoder:
    """Parses and decodes one leaf, with TFDS's own code.

    Args:
        path: Names from the root, joined by `/`.
        feature: The feature, with the sequences around it.
        encoded: Leave the stored bytes as they are, one string an example.

    Attributes:
        spec: `FeatureSpec` of a decoded value.
        parse_specs: What `tf.io.parse_example` needs to find the leaf in a group of records.
    """

    def __init__(
        self, path: str, feature: tfds.features.FeatureConnector, *, encoded: bool = False
    ) -> None:
        self._feature = feature
        stored = feature.get_serialized_info()
        # A feature of several parts (a tensor of several unknown sizes, its shape) names each.
        parts = stored if isinstance(stored, dict) else {"": stored}
        self._stored = {f"{path}/{name}" if name else path: info for name, info in parts.items()}
        info = next(iter(self._stored.values())) if encoded else feature.get_tensor_info()
        dtype = np.dtype(info.np_dtype)
        self.spec = FeatureSpec(
            shape=_shape(info),
            dtype=np.dtype(object) if dtype.kind in "OSU" else dtype,
            nested_sequences=max(0, info.sequence_rank - 1),
        )
        specs = tfds.features.FeaturesDict({path: feature}).tf_example_spec
        self.parse_specs = {key: _group_spec(key, spec) for key, spec in specs.items()}
        self._is_stored_as_is = encoded or _is_stored_as_is(feature)

    @property
    def is_decoded_by_row(self) -> bool:
        """Whether a group is decoded one example after the other."""
        return not self._is_stored_as_is

    def decode(self, parsed: Mapping[str, Any]) -> tf.Tensor | tf.RaggedTensor:
        """Return the values of a group, [n, ...]; ragged where the spec has unknown sizes.

        Args:
            parsed: What `tf.io.parse_example` found, by the keys of `parse_specs`.
        """
        if self._is_stored_as_is:
            ((key, info),) = self._stored.items()
            return _restore_group(parsed[key], info)
        rows = {key: parsed[key] for key in self.parse_specs}
        return map_rows(self._decode_row, rows, self.spec.row_signature)

    def _decode_row(self, row: Example) -> tf.Tensor | tf.RaggedTensor:
        restored = {key: _restore_row(key, info, row) for key, info in self._stored.items()}
        if len(restored) == 1:
            (value,) = restored.values()
        else:
            value = {key.rsplit("/", 1)[1]: part for key, part in restored.items()}
        decoded = self._feature.decode_example(value)
        return to_row(decoded, self.spec)


def leaf_features(
    feature: tfds.features.FeatureConnector, path: str = "", lengths: tuple[int | None, ...] = ()
) -> dict[str, tfds.features.FeatureConnector]:
    """Return the features of all leaves by path, each with the sequences around it.

    Args:
        feature: The features of a dataset, or a part of them.
        path: Where that part is.
        lengths: Lengths of the sequences around it, from the outermost on; None: unknown.
    """
    if isinstance(feature, tfds.features.FeaturesDict):
        return {
            leaf: each
            for name, part in feature.items()
            for leaf, each in leaf_features(part, f"{path}/{name}".lstrip("/"), lengths).items()
        }
    if isinstance(feature, tfds.features.Sequence):  # Video and Dataset are kinds of it
        length = tf.nest.flatten(feature.get_serialized_info())[0].shape[0]
        return leaf_features(feature.feature, path, (*lengths, length))
    for length in reversed(lengths):
        feature = tfds.features.Sequence(feature, length=length)
    return {path: feature}


def _shape(info: tfds.features.TensorInfo) -> tuple[int | None, ...]:
    shape: tuple[int | None, ...] = tuple(info.shape)
    rank: int = info.sequence_rank
    # Nested sequences come as ragged tensors, whose sizes are fixed only further in.
    return shape if rank < 2 else (None,) * rank + shape[rank:]


def _is_stored_as_is(feature: tfds.features.FeatureConnector) -> bool:
    """Return whether decoding changes nothing but the dtype, so that a group needs no loop."""
    stored = feature.get_serialized_info()
    info = feature.get_tensor_info()
    if isinstance(stored, dict) or stored.sequence_rank > 1 or None in info.shape[1:]:
        return False
    while isinstance(feature, tfds.features.Sequence):
        feature = feature.feature
    decodes_nothing = type(feature).decode_example is tfds.features.Tensor.decode_example
    same = stored.shape == info.shape and stored.np_dtype == info.np_dtype
    return decodes_nothing and same


def _group_spec(key: str, spec: Any) -> Any:
    """Return the parser's spec for a group; TFDS's own would fill short sequences with zeros."""
    if isinstance(spec, tf.io.FixedLenSequenceFeature):
        return tf.io.RaggedFeature(spec.dtype, value_key=key, row_splits_dtype=tf.int64)
    return spec


def _restore_group(
    values: tf.Tensor | tf.RaggedTensor, info: tfds.features.TensorInfo
) -> tf.Tensor | tf.RaggedTensor:
    """Give a group the shape and dtype that a tf.train.Example cannot hold."""
    values = tf.cast(values, info.tf_dtype)
    if not isinstance(values, tf.RaggedTensor):
        return values
    # [n, (length · sizes)] → [n, (length), *sizes]
    sizes = info.shape[1:]
    flat = tf.reshape(values.flat_values, [-1, *sizes])
    elements = max(1, int(np.prod(sizes, dtype=np.int64)))
    return tf.RaggedTensor.from_row_lengths(flat, values.row_lengths() // elements)


def _restore_row(
    key: str, info: tfds.features.TensorInfo, row: Example
) -> tf.Tensor | tf.RaggedTensor:
    """Give one example the shape and dtype that a tf.train.Example cannot hold."""
    rank = info.sequence_rank
    if rank > 1:
        flat = tf.reshape(row[f"{key}/ragged_flat_values"], [-1, *info.shape[rank:]])
        lengths = [row[f"{key}/ragged_row_lengths_{level}"] for level in range(rank - 1)]
        value = tf.RaggedTensor.from_nested_row_lengths(flat, lengths)
    else:
        value = tf.reshape(row[key], [-1 if size is None else size for size in info.shape])
    return tf.cast(value, info.tf_dtype)

# SPDX-License-Identifier: Apache-2.0
"""One feature of a dataset: how it is stored, and how a group of examples of it is decoded.

A feature here has one array per example. A dict is several features, within a sequence too:
`Sequence({"box": BBoxFeature()})` at `objects` is the feature `objects/box`, a sequence of boxes,
which is how TFDS stores it. A record names a feature by its keys joined by `/`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Path, path_text
from tfjax_batches.features.rows import Row, map_rows, to_row


class FeatureDecoder:
    """Parses and decodes one feature with TFDS's own code.

    Args:
        path: Where it is.
        feature: The feature, with the sequences around it.
        encoded: Whether to return the stored bytes, one string per example.

    Attributes:
        spec: `FeatureSpec` of a decoded value.
        parse_specs: What `tf.io.parse_example` needs to find the feature in a group of records.
        maps_each_example: Whether a group is decoded one example after the other.
    """

    def __init__(
        self, path: Path, feature: tfds.features.FeatureConnector, *, encoded: bool = False
    ) -> None:
        self._feature = feature
        name = path_text(path)
        stored = feature.get_serialized_info()
        # A dict where a feature has several parts: a tensor of unknown sizes has a shape too.
        parts = stored if isinstance(stored, dict) else {"": stored}
        self._stored = {f"{name}/{part}" if part else name: info for part, info in parts.items()}
        info = next(iter(self._stored.values())) if encoded else feature.get_tensor_info()
        self.spec = _decoded_spec(info)
        self.parse_specs: dict[str, Any] = {}
        for key, stored_info in self._stored.items():
            self.parse_specs |= _parse_specs(key, stored_info)
        self.maps_each_example = not (encoded or _is_stored_decoded(feature))

    def decode(self, parsed: Mapping[str, Any]) -> tf.Tensor | tf.RaggedTensor:
        """Return the values of a parsed group, [n, ...]; ragged where sizes are unknown."""
        if not self.maps_each_example:
            ((key, info),) = self._stored.items()
            return _restore_group(parsed[key], info)
        stored = {key: parsed[key] for key in self.parse_specs}
        return map_rows(self._decode_example, stored, self.spec.row_signature)

    # AutoGraph would change the class and text of errors.
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def decode_records(self, records: tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
        """Return the values of some records, string[n], apart from the other features."""
        return self.decode(tf.io.parse_example(records, self.parse_specs))

    def _decode_example(self, example: Row) -> tf.Tensor | tf.RaggedTensor:
        restored = {key: _restore_one(key, info, example) for key, info in self._stored.items()}
        if len(restored) == 1:
            (value,) = restored.values()
        else:
            value = {key.rsplit("/", 1)[1]: part for key, part in restored.items()}
        decoded = self._feature.decode_example(value)
        if isinstance(decoded, tf.RaggedTensor) and not self.spec.nested_sequences:
            decoded = _to_dense(decoded, self.spec.shape)
        return to_row(decoded, self.spec)


def features_by_path(
    feature: tfds.features.FeatureConnector, path: Path = (), lengths: tuple[int | None, ...] = ()
) -> dict[Path, tfds.features.FeatureConnector]:
    """Return all features by path, each within the sequences around it.

    Args:
        feature: TFDS's description of the records, or a part of it.
        path: The path of that part.
        lengths: Lengths of the sequences around it, outermost first; None: unknown.
    """
    if isinstance(feature, tfds.features.FeaturesDict):
        found: dict[Path, tfds.features.FeatureConnector] = {}
        for key, part in feature.items():
            found |= features_by_path(part, (*path, key), lengths)
        return found
    if isinstance(feature, tfds.features.Sequence):  # Video and Dataset are kinds of it
        length = tf.nest.flatten(feature.get_serialized_info())[0].shape[0]
        return features_by_path(feature.feature, path, (*lengths, length))
    for length in reversed(lengths):
        feature = tfds.features.Sequence(feature, length=length)
    return {path: feature}


def element_feature(feature: tfds.features.FeatureConnector) -> tfds.features.FeatureConnector:
    """Return the feature within all sequences."""
    while isinstance(feature, tfds.features.Sequence):
        feature = feature.feature
    return feature


def is_parsable(feature: tfds.features.FeatureConnector) -> bool:
    """Return whether a record tells the sizes of a value: no more than one is unknown.

    Lengths of nested sequences are stored.
    """
    return all(
        (info.sequence_rank > 1 or None in info.shape[: info.sequence_rank])
        + info.shape[info.sequence_rank :].count(None)
        <= 1
        for info in tf.nest.flatten(feature.get_serialized_info())
    )


def _is_stored_decoded(feature: tfds.features.FeatureConnector) -> bool:
    """Return whether decoding changes only the dtype, so that a group needs no loop."""
    stored = feature.get_serialized_info()
    info = feature.get_tensor_info()
    if isinstance(stored, dict) or stored.sequence_rank > 1 or None in info.shape[1:]:
        return False
    decode_example = type(element_feature(feature)).decode_example
    decodes_nothing = decode_example is tfds.features.Tensor.decode_example
    same = stored.shape == info.shape and stored.np_dtype == info.np_dtype
    return decodes_nothing and same


def _decoded_spec(info: tfds.features.TensorInfo) -> FeatureSpec:
    """Return the spec of a feature's values."""
    dtype, shape, rank = np.dtype(info.np_dtype), tuple(info.shape), info.sequence_rank
    is_ragged = None in shape[1:rank]
    if is_ragged:
        # Only the dims within the sequences have fixed sizes.
        shape = (None,) * rank + shape[rank:]
    return FeatureSpec(
        shape=shape,
        dtype=np.dtype(object) if dtype.kind in "OSU" else dtype,
        nested_sequences=rank - 1 if is_ragged else 0,
    )


def _parse_specs(key: str, info: tfds.features.TensorInfo) -> dict[str, Any]:
    """Return the parser's specs, by key in a record, for a group of one part of a feature.

    TFDS's own pad short sequences with zeros, and do not find nested ones of fixed lengths.
    """
    if info.sequence_rank > 1:
        values = _variable_spec(f"{key}/ragged_flat_values", _stored_dtype(info))
        keys = [f"{key}/ragged_row_lengths_{level}" for level in range(info.sequence_rank - 1)]
        lengths = [_variable_spec(length_key, tf.int64) for length_key in keys]
        return {spec.value_key: spec for spec in (values, *lengths)}
    if None in info.shape:
        return {key: _variable_spec(key, _stored_dtype(info))}
    dtype, default = _stored_dtype(info), info.default_value
    if dtype == tf.string and np.asarray(default).dtype.kind not in "SU":
        default = None  # TFDS gives a number where its bytes are stored, which no parser takes
    return {key: tf.io.FixedLenFeature(info.shape, dtype, default)}


def _variable_spec(key: str, dtype: tf.DType) -> tf.io.RaggedFeature:
    return tf.io.RaggedFeature(dtype, value_key=key, row_splits_dtype=tf.int64)


def _stored_dtype(info: tfds.features.TensorInfo) -> tf.DType:
    """Return which of the three dtypes of a tf.train.Example holds a part of a feature."""
    if info.tf_dtype.is_floating:
        return tf.float32
    return tf.string if info.tf_dtype == tf.string else tf.int64


def _to_dense(value: tf.RaggedTensor, shape: tuple[int | None, ...]) -> tf.Tensor:
    """Return nested sequences as a tensor; only the length of the outermost may be unknown."""
    flat = value.flat_values
    lengths = shape[1 : value.ragged_rank + 1]
    sizes = tf.concat([[value.nrows()], lengths, tf.shape(flat, tf.int64)[1:]], axis=0)
    return tf.ensure_shape(tf.reshape(flat, sizes), shape)


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


def _restore_one(
    key: str, info: tfds.features.TensorInfo, example: Row
) -> tf.Tensor | tf.RaggedTensor:
    """Give one example the shape and dtype that a tf.train.Example cannot hold."""
    rank = info.sequence_rank
    if rank > 1:
        flat = tf.reshape(example[f"{key}/ragged_flat_values"], [-1, *info.shape[rank:]])
        lengths = [example[f"{key}/ragged_row_lengths_{level}"] for level in range(rank - 1)]
        value = tf.RaggedTensor.from_nested_row_lengths(flat, lengths)
    else:
        value = tf.reshape(example[key], [-1 if size is None else size for size in info.shape])
    return tf.cast(value, info.tf_dtype)

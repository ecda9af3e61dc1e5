# SPDX-License-Identifier: Apache-2.0
"""A transform's function as a graph, and the specs of what it returns, found without any data.

Everything that a function may not return is an error here, which names transform and feature.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import BatchesError, ConfigError, FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import RESERVED, Path, flatten, nest, path_text, shortest_name
from tfjax_batches.features.rows import Value
from tfjax_batches.preprocess.transforms import MapExamples, Transform

Specs = Mapping[Path, FeatureSpec]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A transform's function for features of known specs.

    Attributes:
        function: Takes features by path, and seeds if random; returns features by path.
        specs: `FeatureSpec` of each returned feature, sorted by path. A feature that is only passed
            on has the spec object that it had.
    """

    function: Any
    specs: Specs


def trace(transform: Transform, label: str, before: Specs, rows: int | None) -> Traced:
    """Trace a transform's function once.

    Args:
        transform: The transform.
        label: Its place and name, for messages.
        before: Specs of the features that it is given, by path.
        rows: Rows of a batch, for `MapBatches`. None: any number.
    """
    is_by_example = isinstance(transform, MapExamples)
    signature: list[Any] = [
        {
            path: spec.example_signature if is_by_example else spec.group_signature(rows)
            for path, spec in before.items()
        }
    ]
    if transform.random:
        signature.append(tf.TensorSpec([2] if is_by_example else [rows, 2], tf.int32))
    fn = transform.fn
    specs: dict[Path, FeatureSpec] = {}
    raised: list[BaseException] = []  # kept, since TensorFlow changes their class

    def to_features(given: Mapping[Path, Any], result: Any) -> dict[Path, Any]:
        features = {path: _to_tensor(path, value) for path, value in _flatten(result).items()}
        for path, value in features.items():
            if not is_by_example:
                _check_rows(path, value, rows)
            unchanged = [before[old] for old, same in given.items() if value is same]
            found = unchanged or [_find_spec(path, value, is_by_example, before)]
            specs[path] = found[0]
        return features

    # AutoGraph converts what it finds in `call`, which must be the user's function alone.
    plain_nest = tf.autograph.experimental.do_not_convert(nest)
    plain_to_features = tf.autograph.experimental.do_not_convert(to_features)

    def call(features, *seeds):  # type: ignore[no-untyped-def]
        try:
            return plain_to_features(features, fn(plain_nest(features), *seeds))
        except Exception as error:
            raised.append(error)
            raise

    try:
        # Outside of any graph that is being traced: the function is used in others too.
        with tf.init_scope():
            return Traced(function=tf.function(call).get_concrete_function(*signature), specs=specs)
    except Exception as error:
        cause = raised[0] if raised else error
        kind = FeatureError if isinstance(cause, FeatureError) else ConfigError
        if isinstance(cause, BatchesError):  # has its own rule, values and fix
            raise kind(f"{label} fails: {cause}") from error
        given = ", ".join(f"{path_text(path)}: {spec.describe()}" for path, spec in before.items())
        reason = f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"
        raise kind(
            f"A transform must be a TensorFlow function of its features; {label} was given "
            f"{given or 'none'} and failed: {reason}\n"
            f"{_fix_for(cause, before)}"
        ) from error


def _fix_for(cause: BaseException, before: Specs) -> str:
    """Return what to do about a function that failed on features of these specs."""
    images = [p for p, s in before.items() if s.dtype == np.uint8 and len(s.shape) == 3]
    # As TensorFlow's functions that decode images say it.
    takes_bytes = isinstance(cause, TypeError) and "uint8" in str(cause) and "string" in str(cause)
    if images and takes_bytes:
        names = tuple(shortest_name(path, before) for path in images)
        return f"Write encoded={names!r} if the function takes the stored bytes of these images."
    return "Fix the function, or change its place among the transforms."


def _flatten(result: Any) -> dict[Path, Any]:
    if not isinstance(result, Mapping):
        raise FeatureError(
            "A transform must return a dict of features, nested like the one it is given; it "
            f"returns {type(result).__name__}. Return {{**features, 'name': value}}."
        )
    flat = flatten(result)
    if not flat:
        raise FeatureError("A batch must have a feature; it returns none. Return features by name.")
    if taken := [path_text(path) for path in flat if path[0] in RESERVED]:
        raise FeatureError(
            f"The names {', '.join(RESERVED)} are reserved; it returns {', '.join(taken)}. "
            "Choose other names."
        )
    return flat


def _to_tensor(path: Path, value: Any) -> Value:
    if isinstance(value, tf.RaggedTensor):
        # Decoded features have int64 row splits, and TensorFlow does not mix them with int32.
        return value.with_row_splits_dtype(tf.int64)
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError):
        raise FeatureError(
            f"A feature must be a tensor; it returns {path_text(path)!r} as "
            f"{type(value).__name__}. Make it a tf.Tensor or a tf.RaggedTensor."
        ) from None


def _check_rows(path: Path, value: Value, rows: int | None) -> None:
    shape = value.shape
    if shape.rank is not None and shape[:1].as_list() != [rows]:
        raise FeatureError(
            f"A transform must keep the rows of its batch; it was given {rows} rows and returns "
            f"{path_text(path)!r} of shape {shape}. Return a value for each row, in order; if "
            "TensorFlow lost the number of rows, write tf.ensure_shape with that of another one."
        )


def _find_spec(path: Path, value: Value, is_by_example: bool, before: Specs) -> FeatureSpec:
    """Return the spec of a feature that the function made."""
    is_ragged = isinstance(value, tf.RaggedTensor)
    batch_dims = 0 if is_by_example else 1
    shape = value.shape[batch_dims:]
    if shape.rank is None or (not is_ragged and not is_by_example and None in shape):
        raise FeatureError(
            "The shape of a feature must be known before data is read; it returns "
            f"{path_text(path)!r} of shape {value.shape}. Set it with tf.ensure_shape, or return a "
            "tf.RaggedTensor if it differs from example to example."
        )
    dtype = np.dtype(object if value.dtype == tf.string else value.dtype.as_numpy_dtype)
    spec = FeatureSpec(shape=tuple(shape), dtype=dtype)
    if not is_ragged:
        return spec
    if spec.is_fixed or value.ragged_rank - batch_dims != spec.ragged_rank:
        rank = 0 if spec.is_fixed else batch_dims + spec.ragged_rank
        raise FeatureError(
            "A ragged feature must be ragged up to its last dimension of unknown size and no "
            f"further; it returns {path_text(path)!r} of shape {value.shape} with ragged_rank="
            f"{value.ragged_rank}. "
            + (f"Build it with ragged_rank={rank}." if rank else "Use its to_tensor().")
        )
    old = before.get(path)
    if is_by_example:
        nested_sequences = spec.ragged_rank
    elif old is not None and old.shape == spec.shape:
        nested_sequences = old.nested_sequences  # new values of the same kind
    else:
        nested_sequences = 0  # like images that differ in size; `to_example` raises if it is more
    return dataclasses.replace(spec, nested_sequences=nested_sequences)

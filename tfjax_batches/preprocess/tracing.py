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
from tfjax_batches.features.paths import RESERVED, flatten, nest
from tfjax_batches.preprocess.transforms import MapExamples, Transform

Specs = Mapping[str, FeatureSpec]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A transform's function for features of known specs.

    Attributes:
        function: Takes features by path, and seeds if random; returns features by path.
        specs: `FeatureSpec` of each returned feature, sorted by path.
    """

    function: Any
    specs: Specs


def trace(transform: Transform, label: str, specs: Specs, rows: int | None) -> Traced:
    """Trace a transform's function once.

    Args:
        transform: The transform.
        label: Its place and name, for messages.
        specs: Specs of the features that it is given, by path.
        rows: Rows of a batch, for `MapBatches`. None: any number.

    Raises:
        ConfigError: The function fails.
        FeatureError: It returns something that cannot be features of a batch.
    """
    return _Tracer(transform, label, specs, rows).trace()


class _Tracer:
    """One trace. Errors inside are kept, since TensorFlow would change their class."""

    def __init__(self, transform: Transform, label: str, specs: Specs, rows: int | None) -> None:
        self._transform = transform
        self._label = label
        self._before = specs
        self._rows = rows
        self._is_by_example = isinstance(transform, MapExamples)
        self._specs: dict[str, FeatureSpec] = {}
        self._raised: BaseException | None = None  # by the user's function
        self._error: BatchesError | None = None  # in what the function returned

    def trace(self) -> Traced:
        signature: list[Any] = [
            {
                path: spec.example_signature
                if self._is_by_example
                else spec.group_signature(self._rows)
                for path, spec in self._before.items()
            }
        ]
        if self._transform.random:
            shape = (2,) if self._is_by_example else (self._rows, 2)
            signature.append(tf.TensorSpec(shape, tf.int32))
        try:
            # Outside of any graph that is being traced: the function is used in others too.
            with tf.init_scope():
                function = self._function().get_concrete_function(*signature)
        except Exception as error:
            kind = FeatureError if isinstance(self._raised, FeatureError) else ConfigError
            if isinstance(self._raised, BatchesError):  # has its own rule, values and fix
                raise kind(f"{self._label} fails: {self._raised}") from error
            given = ", ".join(f"{path}: {spec.describe()}" for path, spec in self._before.items())
            raise kind(
                f"A transform must be a TensorFlow function of its features; {self._label} was "
                f"given {given or 'none'} and failed: {_last_line(error)} Fix the function, or "
                "move it to where its features are as it needs them."
            ) from error
        if self._error is not None:
            raise self._error
        return Traced(function=function, specs=self._specs)

    def _function(self) -> Any:
        fn = self._transform.fn
        # AutoGraph converts what it finds in `call`, which must be the user's function alone.
        to_features = tf.autograph.experimental.do_not_convert(self._to_features)
        to_nested = tf.autograph.experimental.do_not_convert(nest)
        keep_error = tf.autograph.experimental.do_not_convert(self._keep_error)

        def call(features, *seeds):  # type: ignore[no-untyped-def]
            try:
                result = fn(to_nested(features), *seeds)
            except Exception as error:
                keep_error(error)
                raise
            return to_features(features, result)

        return tf.function(call)

    def _keep_error(self, error: BaseException) -> None:
        self._raised = error

    def _to_features(self, given: Mapping[str, Any], result: Any) -> dict[str, Any]:
        """Return the function's result by path and note its specs; empty if there is an error."""
        try:
            features = self._flatten(result)
            self._specs = {path: self._spec(path, v, given) for path, v in features.items()}
        except BatchesError as error:
            self._error = error
            return {}
        return features

    def _flatten(self, result: Any) -> dict[str, Any]:
        if not isinstance(result, Mapping):
            raise FeatureError(
                f"A transform must return a dict of features, nested like the one it is given; "
                f"{self._label} returns {type(result).__name__}. "
                "Return {**features, 'name': value}."
            )
        try:
            flat = flatten(result)
        except FeatureError as error:
            raise FeatureError(f"{error} ({self._label} returns it.)") from None
        if not flat:
            raise FeatureError(
                f"A batch must have a feature; {self._label} returns none. Return features by name."
            )
        if taken := [path for path in flat if path.split("/")[0] in RESERVED]:
            raise FeatureError(
                f"The names {', '.join(RESERVED)} are reserved; {self._label} returns "
                f"{', '.join(taken)}. Choose other names."
            )
        return {path: self._to_tensor(path, value) for path, value in flat.items()}

    def _to_tensor(self, path: str, value: Any) -> tf.Tensor | tf.RaggedTensor:
        if isinstance(value, tf.RaggedTensor):
            # Decoded features have int64 row splits, and TensorFlow does not mix them with int32.
            return value.with_row_splits_dtype(tf.int64)
        try:
            tensor = tf.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise FeatureError(
                f"A feature must be a tensor; {self._label} returns {path!r} as "
                f"{type(value).__name__}: {_last_line(error)} Make it a tf.Tensor or a "
                "tf.RaggedTensor."
            ) from None
        if tensor.dtype in (tf.resource, tf.variant) or tensor.dtype.is_quantized:
            raise FeatureError(
                f"A feature must have a dtype of NumPy; {self._label} returns {path!r} as "
                f"{tensor.dtype.name}. Cast it."
            )
        return tensor

    def _spec(self, path: str, value: Any, given: Mapping[str, Any]) -> FeatureSpec:
        """Return the spec of a feature that the function returned."""
        # Passed on unchanged, perhaps under another name.
        for before, same in given.items():
            if value is same:
                return self._before[before]
        shape = value.shape
        if shape.rank is None:
            raise self._unknown(path, "a shape of unknown rank")
        sizes: list[int | None] = shape.as_list()
        ragged_rank = value.ragged_rank if isinstance(value, tf.RaggedTensor) else 0
        if not self._is_by_example:
            self._check_rows(path, sizes)
            if ragged_rank == 0 and None in sizes[1:]:
                raise self._unknown(path, f"the shape {shape}")
            del sizes[0]
            ragged_rank -= 1
        dtype = np.dtype(object if value.dtype == tf.string else value.dtype.as_numpy_dtype)
        spec = FeatureSpec(shape=tuple(sizes), dtype=dtype)
        if isinstance(value, tf.RaggedTensor):
            if spec.is_fixed or ragged_rank != spec.ragged_rank:
                raise FeatureError(
                    "A ragged feature must be ragged up to its last dimension of unknown size and "
                    f"no further; {self._label} returns {path!r} of shape {shape} with ragged_rank="
                    f"{value.ragged_rank}. Use its to_tensor(), or build it with that ragged_rank."
                )
            spec = dataclasses.replace(spec, nested_sequences=self._nested(path, spec))
        return spec

    def _nested(self, path: str, spec: FeatureSpec) -> int:
        """Return how many dims of a ragged feature may differ within an example."""
        if self._is_by_example:
            return spec.ragged_rank  # a ragged example differs in each of them
        old = self._before.get(path)
        if old is not None and old.shape == spec.shape:
            return old.nested_sequences  # new values of the same kind
        return 0  # like images that differ in size; `to_example` raises if it is more

    def _check_rows(self, path: str, sizes: list[int | None]) -> None:
        if not sizes or sizes[0] != self._rows:
            rows = "none" if not sizes else "an unknown number" if sizes[0] is None else sizes[0]
            raise FeatureError(
                f"A transform must keep the rows of its batch; {self._label} was given "
                f"{self._rows} rows and returns {rows} in {path!r}. Return a value for each row, "
                "in order; use tf.ensure_shape if TensorFlow lost their number."
            )

    def _unknown(self, path: str, what: str) -> FeatureError:
        return FeatureError(
            f"The shape of a feature must be known before data is read; {self._label} returns "
            f"{path!r} with {what}. Set it with tf.ensure_shape, or return a tf.RaggedTensor if it "
            "differs from example to example."
        )


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[-1] if lines else type(error).__name__
    return line if line.endswith(".") else f"{line}."

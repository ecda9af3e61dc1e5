# SPDX-License-Identifier: Apache-2.0
"""A transform's function as a graph, and what of it can be told without any data.

Owns the rule that a transform is a function of its features and its seed: whatever else it may
depend on or change is refused here, by the name of the transform and of the feature.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import BatchesError, ConfigError, FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import RESERVED, flatten, nest
from tfjax_batches.preprocess.outside import snapshot
from tfjax_batches.preprocess.purity import digest_graph, fix_hint, stateful_ops
from tfjax_batches.preprocess.transforms import MapExamples, Transform

Specs = Mapping[str, FeatureSpec]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A transform's function for features of known specs.

    Attributes:
        function: Takes features by path, and seeds where random; returns features by path.
        specs: `FeatureSpec` of each of these, sorted by path.
    """

    function: Any
    specs: Specs


def trace(transform: Transform, label: str, specs: Specs, rows: int | None) -> Traced:
    """Trace a transform's function once.

    Args:
        transform: The transform.
        label: Its place and name, for messages.
        specs: What comes before it.
        rows: Rows of a batch, for `MapBatches`. None: any number.

    Raises:
        ConfigError: The function fails.
        FeatureError: It returns what cannot be features of a batch.
    """
    return _Tracer(transform, label, specs, rows).trace()


def check_pure(transform: Transform, label: str, specs: Specs, rows: int, traced: Traced) -> str:
    """Return a digest of a transform's graph, once it is found to depend on its inputs alone.

    Args:
        transform: The transform.
        label: Its place and name, for messages.
        specs: What comes before it.
        rows: As for `trace`.
        traced: What `trace` returned.

    Raises:
        ConfigError: Another trace gives another graph, or changes what the function refers to; or
            an op may give other values for the same inputs.
    """
    rule = f"A transform depends on its features and its seed, and changes nothing else; {label}"
    if ops := stateful_ops(traced.function.graph):
        raise ConfigError(
            f"{rule} holds the stateful {', '.join(ops)}.{fix_hint(ops)} Use "
            "tf.random.stateless_* with the seed of random=True, and tf.numpy_function(…, "
            "stateful=False) for Python that depends on its arguments alone."
        )
    before = snapshot(transform.fn)
    again = trace(transform, label, specs, rows)
    after = snapshot(transform.fn)
    if changed := [n for n in {**before, **after} if before.get(n) != after.get(n)]:
        raise ConfigError(
            f"{rule} changes {', '.join(map(repr, sorted(changed)))} when it is called. It is "
            "traced, not called for each example: leave this out of the function."
        )
    digest = digest_graph(traced.function)
    if digest != digest_graph(again.function):
        raise ConfigError(
            f"{rule} gives another graph each time it is traced. Values of Python's or NumPy's "
            "random generators, of clocks and counters become constants of the graph: use "
            "tf.random.stateless_* with the seed of random=True."
        )
    return digest


class _Tracer:
    """One trace; what goes wrong within is kept, since TensorFlow would change its class."""

    def __init__(self, transform: Transform, label: str, specs: Specs, rows: int | None) -> None:
        self._transform = transform
        self._label = label
        self._before = specs
        self._rows = rows
        self._is_by_example = isinstance(transform, MapExamples)
        self._specs: dict[str, FeatureSpec] = {}
        self._failure: BaseException | None = None  # of the user's function
        self._fault: BatchesError | None = None

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
            # Out of any graph that is being made: the function is no part of that one alone.
            with tf.init_scope():
                function = self._function().get_concrete_function(*signature)
        except Exception as error:
            kind = FeatureError if isinstance(self._failure, FeatureError) else ConfigError
            if isinstance(self._failure, BatchesError):  # it tells rule, values and mend itself
                raise kind(f"{self._label} fails: {self._failure}") from error
            given = ", ".join(f"{path}: {spec.describe()}" for path, spec in self._before.items())
            raise kind(
                f"A transform is a TensorFlow function of features; {self._label} was given "
                f"{given or 'none'}, and failed: {_last_line(error)} Mend the function, or put it "
                "where its features are as it needs them."
            ) from error
        if self._fault is not None:
            raise self._fault
        return Traced(function=function, specs=self._specs)

    def _function(self) -> Any:
        fn = self._transform.fn
        normalize_fields = tf.autograph.experimental.do_not_convert(self._settle)
        to_nested = tf.autograph.experimental.do_not_convert(nest)
        keep = tf.autograph.experimental.do_not_convert(self._keep_failure)

        def call(features, *seeds):  # type: ignore[no-untyped-def]
            try:
                result = fn(to_nested(features), *seeds)
            except Exception as error:
                keep(error)
                raise
            return normalize_fields(features, result)

        return tf.function(call)

    def _keep_failure(self, error: BaseException) -> None:
        self._failure = error

    def _settle(self, given: Mapping[str, Any], result: Any) -> dict[str, Any]:
        """Return what the function returned by path, and note its specs; nothing at a fault."""
        try:
            features = self._flatten(result)
            specs = {path: self._spec(path, v, given) for path, v in features.items()}
        except BatchesError as error:
            self._fault = error
            return {}
        self._specs = specs
        return features

    def _flatten(self, result: Any) -> dict[str, Any]:
        if not isinstance(result, Mapping):
            raise FeatureError(
                f"A transform returns a dict of features, nested as it was given; {self._label} "
                f"returns {type(result).__name__}. Return {{**features, 'name': value}}."
            )
        try:
            flat = flatten(result)
        except FeatureError as error:
            raise FeatureError(f"{error} ({self._label} returns it.)") from None
        if not flat:
            raise FeatureError(
                f"A batch has at least one feature; {self._label} returns none. Return features "
                "by name."
            )
        if taken := [path for path in flat if path.split("/")[0] in RESERVED]:
            raise FeatureError(
                f"Batches use the names {', '.join(RESERVED)} themselves; {self._label} returns "
                f"{', '.join(taken)}. Choose other names."
            )
        return {path: self._to_tensor(path, value) for path, value in flat.items()}

    def _to_tensor(self, path: str, value: Any) -> tf.Tensor | tf.RaggedTensor:
        if isinstance(value, tf.RaggedTensor):
            return value
        try:
            tensor = tf.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise FeatureError(
                f"A feature is a tensor; {self._label} gives {path!r} a {type(value).__name__}, "
                f"which is none: {_last_line(error)} Make it a tf.Tensor or a tf.RaggedTensor."
            ) from None
        if tensor.dtype in (tf.resource, tf.variant) or tensor.dtype.is_quantized:
            raise FeatureError(
                f"A feature has a dtype that NumPy knows; {self._label} gives {path!r} as "
                f"{tensor.dtype.name}. Cast it."
            )
        return tensor

    def _spec(self, path: str, value: Any, given: Mapping[str, Any]) -> FeatureSpec:
        """Return the spec of a feature that the function returned."""
        # Passed on as it came, perhaps under another name.
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
                    "A ragged feature is ragged up to its last dimension of unknown size and no "
                    f"further; {self._label} gives {path!r} the shape {shape} with ragged_rank="
                    f"{value.ragged_rank}. Use its to_tensor(), or build it with that ragged_rank."
                )
            spec = dataclasses.replace(spec, nested_sequences=self._nested(path, spec))
        return spec

    def _nested(self, path: str, spec: FeatureSpec) -> int:
        """Return how many dims of a ragged feature may differ within an example."""
        if self._is_by_example:
            return spec.ragged_rank  # or it would be dense
        old = self._before.get(path)
        if old is not None and old.shape == spec.shape:
            return old.nested_sequences  # other values of the same kind
        return 0  # as of images of any size; if not so, `to_example` finds it

    def _check_rows(self, path: str, sizes: list[int | None]) -> None:
        if not sizes or sizes[0] != self._rows:
            rows = "none" if not sizes else "an unknown number" if sizes[0] is None else sizes[0]
            raise FeatureError(
                f"A transform keeps the rows of its batch; of {self._rows} rows {self._label} "
                f"leaves {rows} in {path!r}. Return a value for each row, in their order; "
                "tf.ensure_shape tells a number that TensorFlow lost."
            )

    def _unknown(self, path: str, what: str) -> FeatureError:
        return FeatureError(
            f"A feature's shape is known before any data is read; {self._label} gives {path!r} "
            f"{what}. Set it with tf.ensure_shape, or make it a tf.RaggedTensor where it differs "
            "from example to example."
        )


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[-1] if lines else type(error).__name__
    return line if line.endswith(".") else f"{line}."

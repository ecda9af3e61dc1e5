# SPDX-License-Identifier: Apache-2.0
"""A filter is a function of features that returns a bool, checked without any data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfjax_batches.errors import ConfigError, FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.preprocess.filter import (
    FilterExamples,
    TracedFilter,
    check_filter,
    trace_filter,
)

SPECS = {
    ("number",): FeatureSpec(shape=(), dtype=np.dtype(np.int64)),
    ("nested", "even"): FeatureSpec(shape=(), dtype=np.dtype(bool)),
    ("nested", "words"): FeatureSpec(shape=(None,), dtype=np.dtype(object)),
}
VARIABLE = tf.Variable(5, dtype=tf.int64)


def traced(fn: Callable[..., Any], *features: str) -> TracedFilter:
    return trace_filter(FilterExamples(fn, features or ("number",), "some"), SPECS, "numbers")


def selected(fn: Callable[..., Any]) -> list[int]:
    """Return which of 0 … 9 a filter selects."""
    is_selected = traced(fn)({("number",): tf.range(10, dtype=tf.int64)})
    return np.flatnonzero(is_selected).tolist()


def test_filter_is_given_its_features_in_its_own_order() -> None:
    filter = traced(lambda words, even: even & (tf.size(words) > 1), "nested/words", "nested/even")
    assert list(filter.specs) == [("nested", "words"), ("nested", "even")]
    is_selected = filter(
        {
            ("nested", "even"): tf.constant([True, True, False]),
            ("nested", "words"): tf.ragged.constant([["a", "b"], ["a"], ["a", "b"]]),
        }
    )
    assert is_selected.numpy().tolist() == [True, False, False]


def in_numpy(number: tf.Tensor) -> tf.Tensor:
    return tf.numpy_function(lambda n: n > 7, [number], tf.bool, stateful=False)


def test_filter_may_branch_and_use_tables_tensors_and_numpy() -> None:
    initializer = tf.lookup.KeyValueTensorInitializer([1, 2], [1, 1], tf.int64, tf.int64)
    table = tf.lookup.StaticHashTable(initializer, default_value=0)
    wanted = tf.constant([4, 9], tf.int64)

    def branch(number: tf.Tensor) -> Any:
        if number < 2:
            return True
        return number == wanted[0]

    assert selected(branch) == [0, 1, 4]
    assert selected(lambda n: (table.lookup(n) == 1) | tf.reduce_any(wanted == n)) == [1, 2, 4, 9]
    assert selected(in_numpy) == [8, 9]


def test_digest_is_that_of_the_function() -> None:
    below = [traced(lambda n, limit=limit: n < limit).digest for limit in (5, 5, 6)]
    assert below[0] == below[1] != below[2]


def raise_error(number: tf.Tensor) -> tf.Tensor:
    raise RuntimeError("no such thing")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda number: number, r"returns .*int64.*\. Compare"),
        (lambda number: [number > 1], r"returns \[<tf.Tensor.* tf\.reduce_all"),
        (lambda number: tf.stack([number, number]) > 3, r"returns .*shape=\(2,\).*bool"),
        (lambda number: None, "returns None"),
        (lambda number: tf.random.uniform([]) < 0.5, "holds the stateful RandomUniform"),
        (
            lambda number: tf.numpy_function(lambda n: n > 3, [number], tf.bool),
            r"holds the stateful PyFunc.*stateful=False",
        ),
        (lambda number: number > VARIABLE, r".*ReadVariableOp\. .*tf\.constant\(variable"),
        (
            lambda number: tf.io.read_file("/x") == tf.strings.as_string(number),
            "holds the stateful ReadFile",
        ),
        (lambda number: number > np.random.default_rng().integers(2**40), "gives another graph"),
        (raise_error, "was given number: int64 and raised RuntimeError: .*no such thing.*Fix"),
        (lambda: True, "was given number: int64 and raised TypeError"),
    ],
)
def test_trace_filter_bad_function_is_an_error(function: Callable[..., Any], text: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s)filter 'some' {text}"):
        traced(function)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("numbr", r"'numbr' of filter 'some'.*Did you mean 'number'\?"),
        ("nested", r"'nested' of.*Did you mean 'nested/even'\?"),
    ],
)
def test_trace_filter_unknown_feature_is_an_error(name: str, text: str) -> None:
    with pytest.raises(FeatureError, match=rf"features of numbers.*{text}"):
        traced(lambda x: x > 1, name)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"fn": 3}, "takes a TensorFlow function; got 3"),
        ({"features": "label"}, "tuple of feature names; got 'label'"),
        ({"features": ()}, r"got \(\)\. Write \('image',\)"),
        ({"features": (1,)}, "features must be the name of a feature.*; got 1"),
        ({"name": ""}, "1 to 100 characters.*got ''"),
        ({"name": "x" * 101}, "1 to 100 characters"),
        ({"name": None}, "got None"),
        ({"name": "two\nlines"}, r"on one line; got 'two\\nlines'"),
    ],
)
def test_filter_bad_field_is_an_error(fields: dict[str, Any], text: str) -> None:
    good: dict[str, Any] = {"fn": len, "features": ["number"], "name": "x"}
    assert FilterExamples(**good).features == ("number",)
    with pytest.raises(ConfigError, match=text):
        FilterExamples(**{**good, **fields})


def is_small(number: Any) -> Any:
    return number < 5


@pytest.mark.parametrize(
    ("filter", "text"),
    [
        (
            is_small,
            r"got <function is_small.*Write filter=tjb\.FilterExamples\(fn, features=",
        ),
        ("below-5", r"got 'below-5'\. Write filter=tjb\.FilterExamples\(fn, "),
    ],
)
def test_check_filter_bare_function_is_an_error_with_the_fix(filter: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        check_filter(filter)
    assert check_filter(None) is None

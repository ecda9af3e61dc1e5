# SPDX-License-Identifier: Apache-2.0
"""Functions that depend on more than their inputs are errors; digests are of what is computed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfjax_batches.preprocess.purity import digest_graph, stateful_ops


def traced(function: Callable[..., Any]) -> Any:
    return tf.function(function).get_concrete_function(tf.TensorSpec([], tf.int64))


def branches(limit: int, step: int = 2) -> Callable[[Any], Any]:
    """Return a function with parts that TensorFlow numbers: branches, loops, calls."""
    called = tf.function(lambda x: x + limit)

    def function(x: tf.Tensor) -> tf.Tensor:
        y = tf.cond(x < limit, lambda: x + 1, lambda: called(x))
        i = tf.constant(0, tf.int64)
        while i < y:
            i += step
        return tf.reduce_sum(tf.map_fn(lambda v: v + x, tf.range(y))) + i > 3

    return function


def test_digest_of_one_function_does_not_depend_on_what_was_traced_before() -> None:
    first, other = traced(branches(5)), traced(branches(6))
    names = [f.signature.name for f in first.graph.as_graph_def().library.function]
    again = traced(branches(5))
    assert names != [f.signature.name for f in again.graph.as_graph_def().library.function]
    assert digest_graph(first) == digest_graph(again)
    assert digest_graph(first) != digest_graph(other)
    assert digest_graph(first) != digest_graph(traced(branches(5, step=3)))


def test_digest_tells_constants_and_captured_tensors_apart() -> None:
    def of_table(values: np.ndarray) -> str:
        table = tf.constant(values)  # too large to become a constant of the graph
        return digest_graph(traced(lambda x: tf.gather(table, x) > 3))

    table = np.arange(1000)
    assert of_table(table) == of_table(table)
    assert of_table(table) != of_table(table[::-1])
    below = [digest_graph(traced(lambda x, k=k: x < k)) for k in (5, 5, 6)]
    assert below[0] == below[1] != below[2]
    assert digest_graph(traced(lambda x: x < 5)) != digest_graph(traced(lambda x: x <= 5))
    assert digest_graph(traced(lambda x: x - 1)) != digest_graph(traced(lambda x: 1 - x))


def is_below(value: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    return value < limit


def is_above(limit: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return value < limit


def ends(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return value - 1, value + 1


def swapped_ends(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    low, high = value - 1, value + 1
    return high, low


def test_digest_tells_the_order_of_arguments_and_results_apart() -> None:
    limit = np.int64(500)
    below, above = tf.function(is_below), tf.function(is_above)
    of_arguments = [digest_graph(traced(lambda x, f=f: f(x, limit))) for f in (below, above)]
    assert of_arguments[0] != of_arguments[1]
    both, swapped = tf.function(ends), tf.function(swapped_ends)
    assert digest_graph(traced(lambda x: both(x)[0])) != digest_graph(traced(lambda x: both(x)[1]))
    of_results = [digest_graph(traced(lambda x, f=f: f(x)[0])) for f in (both, swapped)]
    assert of_results[0] != of_results[1]
    assert digest_graph(traced(lambda x: (x - 1, x + 1)[0])) != digest_graph(
        traced(lambda x: (x - 1, x + 1)[1])
    )


def nested(kind: str, values: list[int]) -> Callable[[Any], Any]:
    """Return a function with a captured tensor within a part of it."""
    captured = tf.constant(values, tf.int64)

    def by_branch(x: tf.Tensor) -> tf.Tensor:
        if x > 100:
            return False
        return x < captured[0]

    def by_loop(x: tf.Tensor) -> tf.Tensor:
        total = x
        for value in captured:
            total += value
        return total > 3

    first = tf.function(lambda x: x < captured[0])
    return {
        "branch": by_branch,
        "cond": lambda x: tf.cond(x > 100, lambda: False, lambda: x < captured[0]),
        "switch": lambda x: tf.switch_case(
            tf.cast(x, tf.int32), [lambda: x < captured[0], lambda: x > captured[0]]
        ),
        "map": lambda x: tf.reduce_all(tf.map_fn(lambda v: v + captured[0], tf.range(x)) > 3),
        "loop": by_loop,
        "call": lambda x: first(x),
    }[kind]


@pytest.mark.parametrize("size", [2, 1000])
@pytest.mark.parametrize("kind", ["branch", "cond", "switch", "map", "loop", "call"])
def test_digest_of_a_tensor_captured_within_is_that_of_its_values(kind: str, size: int) -> None:
    digests = [digest_graph(traced(nested(kind, [v] * size))) for v in (5, 5, 6)]
    assert digests[0] == digests[1] != digests[2]
    function = nested(kind, [5] * size)
    assert digest_graph(traced(function)) == digest_graph(traced(function)) == digests[0]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: tf.random.uniform([]), ["RandomUniform"]),
        (lambda x: tf.cond(x > 1, lambda: tf.random.gamma([], 1.0), lambda: 1.0), ["RandomGamma"]),
        (lambda x: tf.random.truncated_normal([], seed=1), ["TruncatedNormal"]),
        (lambda x: tf.random.shuffle(tf.range(x)), ["RandomShuffle"]),
        (lambda x: tf.random.categorical([[1.0, 1.0]], 1), ["Multinomial"]),
        (lambda x: tf.io.read_file(tf.strings.as_string(x)), ["ReadFile"]),
        (
            lambda x: tf.cond(x > 1, lambda: tf.size(tf.io.matching_files("/x")), lambda: 1),
            ["MatchingFiles"],
        ),
        (lambda x: (tf.io.write_file("/x", tf.strings.as_string(x)), x)[1], ["WriteFile"]),
        (
            lambda x: tf.raw_ops.RestoreV2(
                prefix="/x", tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.int64]
            )[0],
            ["RestoreV2"],
        ),
        (
            lambda x: tf.data.TFRecordDataset("/x").reduce(x, lambda n, _: n + 1),
            ["TFRecordDataset"],
        ),
        (
            lambda x: tf.data.TextLineDataset("/x").reduce(x, lambda n, _: n + 1),
            ["TextLineDataset"],
        ),
        (lambda x: tf.data.Dataset.range(x).reduce(x, lambda n, v: n + v), []),
        (lambda x: tf.linalg.det(tf.eye(3) * tf.cast(x, tf.float32)), []),
        (lambda x: tf.io.decode_raw(tf.strings.as_string(x), tf.uint8), []),
        (lambda x: tf.random.stateless_uniform([], [0, x]), []),
        (lambda x: tf.random.experimental.index_shuffle(x, [1, 2], np.int64(5)), []),
    ],
)
def test_stateful_ops_are_those_that_may_differ_at_each_call(
    function: Callable[[Any], Any], expected: list[str]
) -> None:
    assert stateful_ops(traced(function).graph) == expected


def test_stateful_ops_of_a_generator_are_found() -> None:
    generator = tf.random.Generator.from_seed(1)
    assert stateful_ops(traced(lambda x: generator.uniform([])).graph)

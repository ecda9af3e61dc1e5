# SPDX-License-Identifier: Apache-2.0
"""What a transform must not return is an error before any data is read, which names it."""

import itertools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tests.made_datasets import make_numbers
from tfjax_batches.errors import BatchesError, ConfigError, FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.preprocess.chain import Chain, build_chain

SPECS = {
    ("label",): FeatureSpec(shape=(), dtype=np.dtype(np.int64)),
    ("nested", "x"): FeatureSpec(shape=(3,), dtype=np.dtype(np.float32)),
    ("words",): FeatureSpec(shape=(None,), dtype=np.dtype(object)),
}
GENERATOR = tf.random.Generator.from_seed(1)
VARIABLE = tf.Variable(1.0)
SHIFTS = [tf.constant([1.0, 2.0, 3.0]), tf.constant([1.0, 2.0, 4.0])]
COUNTER = itertools.count()
NUMPY_RANDOM = np.random.default_rng(0)

Features = dict[str, Any]


def chain_of(*transforms: Any) -> Chain:
    return build_chain(transforms, SPECS)


def with_x(change: Callable[[Any], Any]) -> Callable[[Features], Features]:
    """Return a function named `touch` that changes nested/x."""

    def touch(features: Features) -> Features:
        return {**features, "nested": {"x": change(features["nested"]["x"])}}

    return touch


def error_of(transform: Any, kind: type[BatchesError]) -> str:
    with pytest.raises(kind) as caught:
        chain_of(tjb.MapBatches(lambda batch: batch, name="first"), transform)
    return str(caught.value)


STATEFUL = {
    "random op": (lambda x: x + tf.random.uniform([3]), "RandomUniform"),
    "seeded random op": (lambda x: x + tf.random.normal([3], seed=3), "RandomStandardNormal"),
    "generator": (lambda x: x + GENERATOR.normal([3]), "StatefulStandardNormal|Rng|Resource"),
    "shuffle": (tf.random.shuffle, "RandomShuffle"),
    "image op": (lambda x: tf.image.random_flip_left_right(x[None, :, None])[0, :, 0], "Random"),
    "variable": (lambda x: x * VARIABLE, "ReadVariableOp"),
    "py_function": (lambda x: tf.ensure_shape(tf.py_function(np.sin, [x], tf.float32), [3]), "Py"),
    "numpy_function": (
        lambda x: tf.ensure_shape(tf.numpy_function(np.sin, [x], tf.float32), [3]),
        "PyFunc",
    ),
    "time": (lambda x: x + tf.cast(tf.timestamp(), tf.float32), "Timestamp"),
    "file": (lambda x: x + tf.io.decode_raw(tf.io.read_file("/x"), tf.float32)[0], "ReadFile"),
    "map_fn": (lambda x: tf.map_fn(lambda v: v * tf.random.uniform([]), x), "RandomUniform"),
    "cond": (
        lambda x: tf.cond(x[0] > 0, lambda: x, lambda: x + tf.random.uniform([3])),
        "RandomUniform",
    ),
    "tf.function": (
        lambda x: x + tf.function(lambda: tf.function(tf.random.uniform)([3]))(),
        "RandomUniform",
    ),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_build_chain_stateful_op_is_named_however_deep(name: str) -> None:
    change, op = STATEFUL[name]
    message = error_of(tjb.MapExamples(with_x(change)), ConfigError)
    assert "must depend only on their features and their seed" in message
    assert "2. touch holds the stateful " in message
    assert any(each in message for each in op.split("|"))
    assert "tf.random.stateless_* with the seed of random=True" in message


def checked(x: Any) -> Any:
    tf.debugging.assert_non_negative(x)
    tf.print("x", x)
    return tf.debugging.check_numerics(x, "x")


TABLE = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer([0, 1], [1.0, 2.0], tf.int64, tf.float32), 0.0
)
STATELESS = {
    "assert and print": checked,
    "numpy": lambda x: tf.ensure_shape(
        tf.numpy_function(np.sin, [x], tf.float32, stateful=False), [3]
    ),
    "fixed table": lambda x: x + TABLE.lookup(tf.cast(x, tf.int64)),
    "constant": lambda x, shift=SHIFTS[0]: x + shift,
    "loop": lambda x: tf.while_loop(lambda v: v[0] < 3, lambda v: (v + 1,), (x,))[0],
    "stateless random": lambda x: x + tf.random.stateless_normal([3], (1, 2)),
    "distorted box": lambda x: (
        x
        + tf.image.stateless_sample_distorted_bounding_box(
            [8, 8, 3], tf.constant([[[0.0, 0.0, 1.0, 1.0]]]), (1, 2)
        )[2][0, 0, 0]
    ),
    "tf.function": tf.function(lambda x: tf.map_fn(lambda v: v * 2, x)),
    "captured within": lambda x: tf.cond(x[0] > 0, lambda: x, lambda: x + SHIFTS[0]),
}


@pytest.mark.parametrize("name", STATELESS)
def test_build_chain_takes_ops_that_depend_on_their_inputs_alone(name: str) -> None:
    chain = chain_of(tjb.MapExamples(with_x(STATELESS[name])))
    assert chain.specs == SPECS
    again = chain_of(tjb.MapExamples(with_x(STATELESS[name])))
    assert chain.digest() == again.digest()


def test_digest_tells_graphs_and_captured_values_apart() -> None:
    digests = {
        chain_of(tjb.MapExamples(with_x(change), name="same")).digest()
        for change in (
            lambda x: x + 1,
            lambda x: x + 2,
            lambda x: x * 1,
            lambda x, shift=SHIFTS[0]: x + shift,
            lambda x, shift=SHIFTS[1]: x + shift,
            lambda x: tf.map_fn(lambda v: v + 1, x),
            lambda x: tf.map_fn(lambda v: v + 2, x),
            lambda x: tf.cond(x[0] > 0, lambda: x, lambda: x + 1),
            lambda x: tf.cond(x[0] > 0, lambda: x + 1, lambda: x),
        )
    }
    assert len(digests) == 9


def test_build_chain_values_of_python_as_constants_are_found() -> None:
    for change in (
        lambda x: x * NUMPY_RANDOM.random(),
        lambda x: x + time.perf_counter() % 1,
        lambda x: x + float(next(COUNTER)),
        lambda x: tf.map_fn(lambda v: v * NUMPY_RANDOM.random(), x),
    ):
        message = error_of(tjb.MapBatches(with_x(change)), ConfigError)
        assert "2. touch gives another graph each time it is traced" in message


def test_build_chain_passes_while_another_thread_draws_random_numbers() -> None:
    is_over = threading.Event()

    def draw() -> None:
        while not is_over.wait(1e-4):
            random.random()
            np.random.rand()  # noqa: NPY002

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for _ in range(3):
            assert chain_of(tjb.MapExamples(with_x(lambda x: x + 1))).specs == SPECS
    finally:
        is_over.set()
        thread.join()


def test_build_chain_reading_and_caching_outside_is_no_side_effect() -> None:
    cache: dict[str, Any] = {}
    scales = {"x": 2.0}

    def scaled(features: Features) -> Features:
        if "mean" not in cache:
            cache["mean"] = np.float32(1.0)
        x = (features["nested"]["x"] - cache["mean"]) * scales["x"]
        return {**features, "nested": {"x": x}}

    assert chain_of(tjb.MapExamples(scaled)).specs == SPECS


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (
            lambda x: x[:2],
            "2. touch fails: A transform must keep the rows of its batch",
        ),
        (lambda x: tf.reduce_mean(x), "returns 'nested/x' of shape ()"),
        (lambda x: tf.boolean_mask(x, x[:, 0] > 0), "returns 'nested/x' of shape (None, 3)"),
        (lambda x: tf.transpose(x), "returns 'nested/x' of shape (3, 7)"),
        (lambda x: tf.repeat(x, 2, axis=0), "returns 'nested/x' of shape (14, 3)"),
    ],
)
def test_build_chain_changed_batch_dim_is_named(change: Callable[[Any], Any], left: str) -> None:
    message = error_of(tjb.MapBatches(with_x(change)), FeatureError)
    assert "must keep the rows" in message
    assert left in message


def lose_shape(x: Any) -> Any:
    return tf.numpy_function(np.sin, [x], tf.float32, stateful=False)


@pytest.mark.parametrize(
    ("kind", "change", "shape"),
    [
        (tjb.MapExamples, lose_shape, "<unknown>"),
        (tjb.MapBatches, lose_shape, "<unknown>"),
        (
            tjb.MapBatches,
            lambda x: tf.ensure_shape(lose_shape(x), [7, None]),
            "(7, None)",
        ),
    ],
)
def test_build_chain_unknown_shape_is_named(
    kind: Any, change: Callable[[Any], Any], shape: str
) -> None:
    message = error_of(kind(with_x(change)), FeatureError)
    assert "2. touch fails: The shape of a feature must be known before data is read" in message
    assert f"returns 'nested/x' of shape {shape}" in message
    assert "tf.ensure_shape" in message


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (None, "returns NoneType"),
        ([1.0], "returns list"),
        ({}, "returns none"),
        ({"a": {}}, "returns none"),
        ({3: 1.0}, "must be a text, not empty; got 3. Rename it."),
        ({"_id": 1.0}, "returns _id"),
        ({"_host": {"x": 1.0}}, "returns _host/x"),
        ({"a": None}, "returns 'a' as NoneType"),
        ({"a": object()}, "returns 'a' as object"),
        ({"a": [[1.0], [2.0, 3.0]]}, "returns 'a' as list"),
    ],
)
def test_build_chain_result_that_is_no_batch_is_named(result: Any, what: str) -> None:
    def fn(features: Features) -> Any:
        return result

    message = error_of(tjb.MapExamples(fn), FeatureError)
    assert message.startswith("2. fn fails: ")
    assert what in message


def test_build_chain_failing_function_keeps_its_traceback() -> None:
    def bug(features: Features) -> Features:
        return {**features, "y": features["z"]}

    def refuse(features: Features) -> Features:
        raise FeatureError("Only images are flipped; got words. Name one.")

    for fn, kind, text in (
        (bug, ConfigError, "was given label: int64, nested/x: float32 of shape (3,)"),
        (refuse, FeatureError, "1. refuse fails: Only images are flipped; got words. Name one."),
    ):
        with pytest.raises(kind) as caught:
            chain_of(tjb.MapExamples(fn))
        assert text in str(caught.value)
        assert ("Fix the function" in str(caught.value)) == (fn is bug)
        assert f"1. {fn.__name__} " in str(caught.value)
        assert caught.value.__cause__ is not None
        assert Path(__file__).name in str(caught.value.__cause__)


def test_build_chain_ragged_results_are_ragged_up_to_their_last_unknown_size() -> None:
    def grid(features: Features) -> Features:
        ragged = tf.RaggedTensor.from_tensor(features["nested"]["x"][:, :, None], ragged_rank=2)
        return {**features, "grid": ragged}

    # All of its sizes are known: (7, 3, 1).
    message = error_of(tjb.MapBatches(grid), FeatureError)
    assert message.startswith("2. grid fails: ")
    assert "returns 'grid' of shape (7, 3, 1) with ragged_rank=2" in message
    assert "to_tensor()" in message
    kept = chain_of(tjb.MapBatches(lambda b: {"again": b["words"], "upper": b["words"]}))
    assert kept.specs == {("again",): SPECS[("words",)], ("upper",): SPECS[("words",)]}


def to_lists(values: np.ndarray) -> list[Any]:
    """Return nested lists of ragged values, object arrays of arrays."""
    return [to_lists(value) if isinstance(value, np.ndarray) else value for value in values]


@pytest.mark.parametrize("later", [[], [tjb.MapExamples(dict)]], ids=["alone", "map_examples"])
def test_host_batches_int32_row_splits_change_nothing(
    things_folder: str, later: list[tjb.MapExamples]
) -> None:
    """Where rows are padded, and where examples of nested sequences are mapped."""

    def to_int32(batch: Features) -> Features:
        return {"paths": batch["paths"].with_row_splits_dtype(tf.int32)}

    fields: dict[str, Any] = {
        "features": ("paths",),
        "global_batch_size": 8,
        "shuffle": "none",
        "num_epochs": 1,
    }
    plain, changed = (
        tjb.build(
            things_folder,
            **fields,
            remainder="pad",
            keep_on_host=("paths",),
            transforms=[tjb.MapBatches(first), *later],
        )
        for first in (lambda batch: {"paths": batch["paths"]}, to_int32)
    )
    for one, other in zip(plain.host_batches(), changed.host_batches(), strict=True):
        assert to_lists(one["_host"]["paths"]) == to_lists(other["_host"]["paths"])


def test_build_chain_batch_size_in_the_graph_is_found_when_groups_have_another() -> None:
    def widen(batch: Features) -> Features:
        return {"x": tf.zeros([batch["label"].shape[0], batch["label"].shape[0]])}

    (stage,) = chain_of(tjb.MapBatches(widen)).transforms
    batch = {
        ("nested", "x"): tf.zeros([2, 3]),
        ("label",): tf.zeros([2], tf.int64),
        ("words",): tf.ragged.constant([["a"], []]),
    }
    with pytest.raises(FeatureError, match=r"number of rows; .*1\. widen returns .*'x'.*\(2,\)"):
        stage(batch, tf.zeros([2, 0, 2], tf.int32))


def test_host_batches_transform_that_counts_on_a_number_of_rows_is_named(
    numbers_folder: str,
) -> None:
    def halve(batch: Features) -> Features:
        is_checked = batch["number"].shape[0] == 7
        return {"number": batch["number"] if is_checked else batch["number"][::2]}

    loader = tjb.build(numbers_folder, global_batch_size=8, transforms=[tjb.MapBatches(halve)])
    with pytest.raises(tjb.FeatureError, match=r"halve fails.* given 8 rows .* \(4,\)"):
        next(loader.host_batches())


def test_build_finds_errors_of_transforms_before_any_read(tmp_path: Path) -> None:
    folder = Path(make_numbers(tmp_path, 8))
    for file in folder.glob("*.tfrecord*"):
        file.unlink()
    fn = with_x(lambda x: x)
    with pytest.raises(tjb.ConfigError, match=r"1\. touch was given .* and failed: KeyError"):
        tjb.build(str(folder), global_batch_size=8, transforms=[tjb.MapExamples(fn)])


@pytest.mark.parametrize(
    ("transforms", "text"),
    [
        (tjb.MapExamples(dict), r"transforms must be a list of .*; got MapExamples"),
        ("flip_lr", r"transforms must be a list of .*; got 'flip_lr'"),
        ([dict], r"got \[<class 'dict'>\]\. Write transforms=\[tjb\.MapExamples"),
    ],
)
def test_build_transforms_of_another_kind_are_refused(
    numbers_folder: str, transforms: Any, text: str
) -> None:
    with pytest.raises(tjb.ConfigError, match=text):
        tjb.build(numbers_folder, global_batch_size=8, transforms=transforms)

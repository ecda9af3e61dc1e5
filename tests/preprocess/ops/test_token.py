# SPDX-License-Identifier: Apache-2.0
"""Texts become tokens, and tokens what a language model is trained on."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.preprocess.ops.running import run
from tfjax_batches.errors import FeatureError

TEXTS = ["naïve", "", "ab"]
TOKENS = [[byte + 3 for byte in text.encode()] for text in TEXTS]


def test_byte_tokens_are_those_of_byt5() -> None:
    result = run("byte_tokens", {"text": TEXTS, "id": np.arange(3)})
    assert sorted(result) == ["id", "tokens"]
    assert result["tokens"].to_list() == [[*tokens, 1] for tokens in TOKENS]
    assert result["tokens"].dtype == tf.int32
    bare = run("byte_tokens('a/b', to='a/b', eos=False)", {"a": {"b": TEXTS}})
    assert bare["a"]["b"].to_list() == TOKENS


def test_truncate_cuts_what_is_longer() -> None:
    ragged = tf.ragged.constant(TOKENS)
    result = run("truncate(2)", {"tokens": ragged})["tokens"]
    assert result.to_list() == [tokens[:2] for tokens in TOKENS]
    dense = np.arange(12).reshape(2, 3, 2)
    np.testing.assert_array_equal(run("truncate(2)", {"tokens": dense})["tokens"], dense[:, :2])
    np.testing.assert_array_equal(run("truncate(9)", {"tokens": dense})["tokens"], dense)


def test_pad_fills_and_cuts() -> None:
    result = run("pad(4, value=-1)", {"tokens": tf.ragged.constant(TOKENS)})["tokens"]
    assert result.tolist() == [(tokens + [-1] * 4)[:4] for tokens in TOKENS]
    dense = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    np.testing.assert_array_equal(
        run("pad(4, value=0.5)", {"tokens": dense})["tokens"],
        np.pad(dense, ((0, 0), (0, 1), (0, 0)), constant_values=0.5),
    )


def test_pad_fills_with_the_very_value() -> None:
    for dtype, value in [
        (np.uint8, 255),
        (np.int64, -(2**63) + 1),
        (np.uint64, 2**63 - 1),
        (np.bool_, 1),
        (np.float64, 0.1),
        (np.float32, 3.4028235e38),
    ]:
        (filled,) = run(f"pad(2, value={value!r})", {"tokens": np.zeros((1, 1), dtype)})["tokens"]
        assert filled.dtype == dtype
        assert filled[1] == dtype(value)


def test_tokens_shift_makes_inputs_targets_and_weights() -> None:
    result = run("byte_tokens|pad(4)|tokens_shift(bos=2)", {"text": ["abcdef", "x"]})
    a = ord("a") + 3
    assert result["targets"].tolist() == [[a, a + 1, a + 2, a + 3], [ord("x") + 3, 1, 0, 0]]
    assert result["inputs"].tolist() == [[2, a, a + 1, a + 2], [2, ord("x") + 3, 1, 0]]
    assert result["weights"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert result["weights"].dtype == np.float32
    assert sorted(result) == ["inputs", "targets", "weights"]


def test_tokens_shift_nested_tokens_stay_in_their_dict() -> None:
    result = run("tokens_shift('a/b')", {"a": {"b": np.array([[5, 6]]), "c": np.array([1])}})
    assert sorted(result["a"]) == ["c", "inputs", "targets", "weights"]
    assert result["a"]["inputs"].tolist() == [[0, 5]]


@pytest.mark.parametrize(
    ("ops", "tokens", "text"),
    [
        ("byte_tokens('tokens')", np.array([[1]]), r"one string an example.*int64\[1, 1\]"),
        ("truncate(3)", TEXTS, r"\[n, l, \.\.\.\].*string\[3\]. Put byte_tokens"),
        ("pad(3)", [["a"]], r"numbers.*'tokens' is string\[1, 1\]"),
        ("pad(3, value=0.5)", np.array([[1]]), "value is 0.5. Write an integer"),
        (
            "pad(3, value=300)",
            np.array([[1]], np.uint8),
            "value is 300. Write an integer from 0 to 255",
        ),
        (
            "pad(3, value=-1)",
            np.array([[1]], np.uint8),
            r"'tokens' is uint8\[1, 1\], value is -1",
        ),
        ("pad(3, value=3000000000)", np.array([[1]], np.int32), "value is 3000000000. Write"),
        ("pad(3, value=7)", np.array([[True]]), "value is 7. Write an integer from 0 to 1"),
        (
            "pad(3, value=1e300)",
            np.array([[1.0]], np.float32),
            r"value is 1e\+300.* from -3.4",
        ),
        (
            "tokens_shift(bos=256)",
            np.array([[1]], np.uint8),
            "bos is 256.* from 0 to 255",
        ),
        (
            "tokens_shift(pad=256)",
            np.array([[1]], np.uint8),
            "pad is 256.* from 0 to 255",
        ),
        (
            "pad(3)",
            tf.ragged.constant([[[1], [2, 3]]]),
            r"first dim.*ragged int32\[1, \?, \?\].*keep_on_host",
        ),
        ("tokens_shift", tf.ragged.constant([[1]]), r"integers \[n, l\].*Put pad in front"),
        ("tokens_shift", np.array([[0.5]]), r"integers \[n, l\].*float64\[1, 1\].*name the"),
    ],
)
def test_token_ops_what_they_cannot_take_is_named(ops: str, tokens: object, text: str) -> None:
    with pytest.raises(FeatureError, match=text):
        run(ops, {"tokens": tokens})


@pytest.mark.parametrize(
    ("ops", "batch", "text"),
    [
        ("tokens_shift", {"inputs": [[1]]}, "'inputs' overlaps with 'inputs'"),
        ("tokens_shift", {"targets": {"x": [[1]]}}, "'targets' overlaps with 'targets/x'"),
        (
            "tokens_shift",
            {"weights": [1.0]},
            r"'weights' overlaps.*drop\('weights'\) in",
        ),
        ("byte_tokens", {}, "free name; 'tokens' overlaps"),
        ("byte_tokens(to='label/x')", {"label": [1]}, "'label/x' overlaps with 'label'"),
        ("byte_tokens(to='a')", {"a": {"b": [1]}}, "'a' overlaps with 'a/b'"),
    ],
)
def test_token_ops_write_over_no_feature(ops: str, batch: dict[str, Any], text: str) -> None:
    batch = {"tokens": np.array([[5]]), "text": ["a"], **batch}
    with pytest.raises(FeatureError, match=text):
        run(ops, batch)
    gone = {"tokens_shift": "tokens", "byte_tokens": "text"}[ops.split("(")[0]]
    dropped = text.split("'")[1].split("/")[0]
    result = run(f"drop('{dropped}')|{ops}", batch)
    assert gone not in result

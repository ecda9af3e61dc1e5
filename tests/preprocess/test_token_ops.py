# SPDX-License-Identifier: Apache-2.0
"""Texts become tokens, and tokens what a language model is trained on."""

import numpy as np
import pytest
import tensorflow as tf

from tests.preprocess.groups import run
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
    ("spec", "tokens", "text"),
    [
        ("byte_tokens('tokens')", np.array([[1]]), r"takes one string an example.*int64\[1, 1\]"),
        ("truncate(3)", TEXTS, r"truncate takes sequences.*string\[3\]. Put byte_tokens"),
        ("pad(3)", [["a"]], r"pad takes numbers; 'tokens' is string\[1, 1\]"),
        ("pad(3, value=0.5)", np.array([[1]]), "value is 0.5. Write an integer"),
        (
            "pad(3)",
            tf.ragged.constant([[[1], [2, 3]]]),
            r"pad makes one dim dense.*ragged int32\[1, \?, \?\]",
        ),
        ("tokens_shift", tf.ragged.constant([[1]]), r"takes integer tokens.*Put pad in front"),
        ("tokens_shift", np.array([[0.5]]), r"takes integer tokens.*float64\[1, 1\]. Name the"),
    ],
)
def test_token_ops_what_they_cannot_take_is_named(spec: str, tokens: object, text: str) -> None:
    with pytest.raises(FeatureError, match=text):
        run(spec, {"tokens": tokens})

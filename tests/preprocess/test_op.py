# SPDX-License-Identifier: Apache-2.0
"""`tjb.op` gives an op of a string as a transform, to stand after transforms of one's own."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tfjax_batches.preprocess.registry import build_transforms
from tfjax_batches.testing import check_transforms, loader_of

EXAMPLES = [{"text": "ab" * i, "image": np.full((4, 4, 3), i, np.uint8)} for i in range(6)]


def split_bytes(example: dict[str, Any]) -> dict[str, Any]:
    tokens = tf.cast(tf.io.decode_raw(example["text"], tf.uint8), tf.int32)
    return {"tokens": tokens, "image": example["image"]}


def state_of(*transforms: Any) -> dict[str, Any]:
    """Return the state that a run with these transforms saves."""
    loader = loader_of(EXAMPLES, transforms=transforms, num_epochs=None, global_batch_size=2)
    with iter(loader) as batches:
        state: dict[str, Any] = batches.get_state()
    return state


def restore(state: dict[str, Any], *transforms: Any) -> None:
    loader = loader_of(EXAMPLES, transforms=transforms, num_epochs=None, global_batch_size=2)
    loader.restore(state).close()


def test_op_follows_a_transform_of_ones_own() -> None:
    transforms = [
        tjb.MapExamples(split_bytes),
        tjb.op("pad(6, value=7)"),
        tjb.op("flip_lr"),
    ]
    batch = next(loader_of(EXAMPLES, transforms=transforms).host_batches())
    assert batch["tokens"].shape == (6, 6)
    assert batch["tokens"][1].tolist() == [97, 98, 7, 7, 7, 7]
    check_transforms(EXAMPLES, transforms)


def test_op_is_the_transform_that_preprocess_makes() -> None:
    one, (other,) = tjb.op(" value_range( -1,hi=1 ) "), build_transforms("value_range(-1, hi=1)")
    assert one.name == other.name == "value_range(-1, hi=1)"
    own = tjb.MapExamples(lambda example: {"image": example["image"]})
    first = loader_of(EXAMPLES, transforms=[own, one])
    second = loader_of(EXAMPLES, preprocess="keep('image')|value_range(-1, hi=1)")
    np.testing.assert_array_equal(
        next(first.host_batches())["image"], next(second.host_batches())["image"]
    )


def test_op_whose_argument_changed_does_not_take_a_saved_state() -> None:
    own = tjb.MapExamples(split_bytes)
    state = state_of(own, tjb.op("pad(6)"))
    restore(state, own, tjb.op("pad(6)"))
    with pytest.raises(tjb.StateError, match="pad"):
        restore(state, own, tjb.op("pad(8)"))
    named = tjb.MapBatches(tjb.op("pad(6, value=9)").fn, name="pad(6)")  # only its graph differs
    with pytest.raises(tjb.StateError, match="transforms"):
        restore(state, own, named)


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        ("pad(6", ["pad(6", "^", "ops joined by |"]),
        ("padd(6)", ["there is no 'padd'", "Did you mean 'pad'?", "\n  padd(6)\n  ^"]),
        ("pad(0)", ["pad refuses these", "got 0", "pad(length, value=0", "\n  pad(0)\n  ^"]),
        ("pad(6)|flip_lr", ["one op", "[tjb.op('pad(6)'), tjb.op('flip_lr')]"]),
        ("", ["one op", "got ''"]),
        (None, ["one op as a string", "got None"]),
    ],
)
def test_op_error_shows_place_and_fix(call: Any, texts: list[str]) -> None:
    with pytest.raises(tjb.ConfigError) as caught:
        tjb.op(call)
    assert not [text for text in texts if text not in str(caught.value)], caught.value


def test_op_that_does_not_fit_is_named_with_its_place() -> None:
    transforms = [tjb.MapExamples(split_bytes), tjb.op("flip_lr(key='tokens')")]
    with pytest.raises(tjb.FeatureError, match=r"2\. flip_lr\(key='tokens'\) fails: Images must"):
        loader_of(EXAMPLES, transforms=transforms)

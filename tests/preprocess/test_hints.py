# SPDX-License-Identifier: Apache-2.0
"""Errors say how to fix them: the code in each message is applied, and then it works."""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjax_batches as tjb
from tests.preprocess.hints import EXAMPLES, build, fragment, message_of
from tfjax_batches.preprocess.ops.op_table import OPS
from tfjax_batches.preprocess.registry import register_op

Features = dict[str, Any]


@pytest.mark.parametrize("random", [False, True])
def test_hint_of_a_function_that_takes_other_arguments_works(random: bool) -> None:
    def with_seed(features: Features, seed: tf.Tensor) -> Features:
        return features

    def without_seed(features: Features) -> Features:
        return features

    fn: Any = without_seed if random else with_seed
    message = message_of(lambda: tjb.MapExamples(fn, random=random))
    advice = ast.literal_eval(fragment(r"Write random=(\w+)", message))
    assert build(features=("label",), transforms=[tjb.MapExamples(fn, random=advice)])


def test_hint_of_bare_functions_works() -> None:
    def positive(label: tf.Tensor) -> tf.Tensor:
        return label > 0

    bare: Any = [dict]
    message = message_of(lambda: build(features=("label",), transforms=bare))
    transforms = eval(fragment(r"Write transforms=(.*)\.", message), {"tjb": tjb, "fn": dict})
    assert build(features=("label",), transforms=transforms)
    bare = positive
    message = message_of(lambda: build(features=("label",), filter=bare))
    chosen = eval(fragment(r"Write filter=(.*)\.", message), {"tjb": tjb, "fn": positive})
    assert len(build(features=("label",), filter=chosen)["label"]) == 3


def test_hint_of_op_works() -> None:
    for wrong in ("resize(4)|flip_lr", "", 3):
        message = message_of(lambda wrong=wrong: tjb.op(wrong))  # type: ignore[misc]
        transforms = eval(fragment(r"Write transforms=(.*)\.$", message), {"tjb": tjb})
        names = [each.name for each in transforms]
        assert names == (["resize(4)", "flip_lr"] if wrong and wrong != 3 else ["pad(128)"])


def test_hint_of_register_op_works() -> None:
    message = message_of(lambda: register_op(lambda: tjb.MapBatches(dict)))
    decorator = fragment(r"Write @(register_op\(.*\)) above", message)
    eval(decorator, {"register_op": register_op})(lambda: tjb.MapBatches(dict))
    try:
        assert build(features=("label",), preprocess="invert")
    finally:
        del OPS["invert"]


def two_of_three(batch: Features) -> Features:
    return {"x": tf.boolean_mask(batch["vector"], [True, True, False], axis=1)}


def ragged_pixels(batch: Features) -> Features:
    photo = batch["photo"]
    return {"x": photo.with_flat_values(tf.RaggedTensor.from_tensor(photo.flat_values))}


RESULTS: dict[str, tuple[Callable[[Features], Any], str, Callable[[Any, Any], Features]]] = {
    # A function, the advice, and how to follow it, given the batch and what the function returned.
    "no dict": (
        lambda batch: batch["label"],
        r"Return \{\*\*features, 'name': (value)\}",
        lambda batch, result: {"name": result},
    ),
    "not a tensor": (
        lambda batch: {"label": object()},
        r"Make it a (tf\.Tensor) or",
        lambda batch, result: {"label": -batch["label"]},
    ),
    "rows lost": (
        lambda batch: {"x": tf.boolean_mask(batch["label"], batch["label"] > -1)},
        r"write (tf\.ensure_shape) with that of another one",
        lambda batch, result: {"x": tf.ensure_shape(result["x"], batch["label"].shape)},
    ),
    "size lost": (
        two_of_three,
        r"Set it with (tf\.ensure_shape)",
        lambda batch, result: {"x": tf.ensure_shape(result["x"], [result["x"].shape[0], 2])},
    ),
    "size differs": (
        two_of_three,
        r"or return a (tf\.RaggedTensor) if",
        lambda batch, result: {"x": tf.RaggedTensor.from_tensor(result["x"])},
    ),
    "nothing ragged": (
        lambda batch: {"x": tf.RaggedTensor.from_tensor(batch["image"], ragged_rank=2)},
        r"Use its (to_tensor\(\))",
        lambda batch, result: {"x": result["x"].to_tensor()},
    ),
    "ragged too far": (
        ragged_pixels,
        r"Build it with (ragged_rank=2)",
        lambda batch, result: {"x": tf.identity(batch["photo"])},
    ),
}


@pytest.mark.parametrize("case", RESULTS)
def test_hint_of_a_result_works(case: str) -> None:
    fn, pattern, follow = RESULTS[case]
    names = ("image", "label", "photo", "vector")
    message = message_of(
        lambda: build(names, transforms=[tjb.MapBatches(fn)], keep_on_host=("photo",))
    )
    assert fragment(pattern, message)
    fixed = tjb.MapBatches(lambda batch: {**batch, **follow(batch, fn(batch))})
    host = ("photo", "x") if case in ("size differs", "ragged too far") else ("photo",)
    assert build(names, transforms=[fixed], keep_on_host=host)


@pytest.mark.parametrize(
    "decode",
    [
        tf.io.decode_png,
        tf.io.decode_image,
        tf.image.decode_jpeg,
        lambda contents: tf.image.decode_and_crop_jpeg(contents, [0, 0, 4, 5]),
    ],
)
def test_hint_of_a_function_that_decodes_itself_works(decode: Callable[..., tf.Tensor]) -> None:
    def fn(example: Features) -> Features:
        image = tf.cond(
            tf.io.is_jpeg(example["image"]),
            lambda: decode(example["image"]),
            lambda: tf.io.decode_png(example["image"]),
        )
        return {"image": tf.ensure_shape(image, [4, 5, 3])}

    def straight(example: Features) -> Features:
        return {"image": decode(example["image"])}

    transform = tjb.MapExamples(straight)
    message = message_of(lambda: build(features=("image",), transforms=[transform]))
    encoded = ast.literal_eval(fragment(r"Write encoded=(\(.*?\)) if", message))
    images = build(features=("image",), transforms=[tjb.MapExamples(fn, encoded=encoded)])["image"]
    np.testing.assert_array_equal(images, [each["image"] for each in EXAMPLES])


def test_encoded_is_no_hint_for_other_failures() -> None:
    wrong = tjb.MapExamples(lambda example: {"x": example["nothing"]})
    message = message_of(lambda: build(features=("image",), transforms=[wrong]))
    assert "encoded" not in message
    no_image = tjb.MapExamples(lambda example: {"x": tf.strings.length(example["label"])})
    message = message_of(lambda: build(features=("label",), transforms=[no_image]))
    assert "encoded" not in message


def own(batch: Features) -> Features:
    """Return features without a fixed shape, made by a transform."""
    labels = batch["objects"]["label"]
    return {
        "upper": tf.strings.upper(batch["text"]),
        "long": tf.concat([labels, labels], axis=1),
        "picture": batch["photo"],
        "number": batch["number"],
    }


@pytest.mark.parametrize(
    ("names", "transforms"),
    [
        (("photo", "objects", "number"), ()),
        (("photo", "objects", "text", "words"), ()),
        (("photo", "objects", "text", "number"), (tjb.MapBatches(own),)),
    ],
    ids=["numbers", "strings", "made by a transform"],
)
def test_hints_of_features_that_no_device_holds_work(
    things_folder: str, names: tuple[str, ...], transforms: tuple[tjb.MapBatches, ...]
) -> None:
    def batch_of(**fields: Any) -> Any:
        given = {"features": names, "transforms": transforms, "global_batch_size": 4, **fields}
        return next(tjb.build(things_folder, **given).host_batches())

    message = message_of(batch_of)
    advice = advice_of(message)
    assert batch_of(keep_on_host=advice["keep_on_host"])
    assert ("features" in advice) == ("number" in names and not transforms)
    if "features" in advice:
        assert batch_of(features=advice["features"])
    # These give a shape to numbers; strings stay on the host.
    host = re.findall(r"^  (\w+): strings?\b|^  (\w+): a string", message, re.MULTILINE)
    strings = tuple(filter(None, sum(host, ())))
    ops = [tjb.op(each) for each in advice["ops"].split("|")]
    assert batch_of(transforms=[*transforms, *ops], keep_on_host=strings)
    if not transforms:
        assert batch_of(preprocess=advice["ops"], keep_on_host=strings)
        # A length for each that can have one; only the others are still refused.
        padded = advice["pad_to"]
        left = message_of(lambda: batch_of(pad_to=padded))
        assert not [name for name in padded if f"  {name}: " in left]
        assert batch_of(pad_to=padded, keep_on_host=advice_of(left)["keep_on_host"])


def advice_of(message: str) -> Mapping[str, Any]:
    """Return the value of each field that a message advises, and its ops."""
    fields = re.findall(r"(features|keep_on_host|pad_to)=([({].*?[)}])[;.]", message)
    advice: Features = {name: ast.literal_eval(value) for name, value in fields}
    return (
        advice | {"ops": fragment(r"of each\): (.*)\.$", message)}
        if "ops that" in message
        else advice
    )

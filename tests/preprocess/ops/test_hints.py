# SPDX-License-Identifier: Apache-2.0
"""Errors of ops say how to fix them: the code in each message is applied, and then it works."""

import dataclasses

import pytest
import tensorflow as tf

from tests.preprocess.hints import build, fragment, message_of
from tests.preprocess.ops.running import run
from tfjax_batches.preprocess.registry import build_transforms


@dataclasses.dataclass(frozen=True)
class OpCase:
    """An op string that fails, what its error advises, and the string that follows the advice.

    Attributes:
        names: Features of the run.
        ops: The op string.
        pattern: Of the message; its group is the fragment.
        fixed: The op string that works, with the fragment as {}.
        rest: Features to leave on the host then.
    """

    names: tuple[str, ...]
    ops: str
    pattern: str
    fixed: str
    rest: tuple[str, ...] = ()


OP_CASES = [
    OpCase(
        ("photo",), "flip_lr('photo')", r"Put (resize) or a", "{}(4, key='photo')|flip_lr('photo')"
    ),
    OpCase(
        ("photo",),
        "flip_lr('photo')",
        r"or (a crop) in front",
        "central_crop(4, 'photo')|flip_lr('photo')",
    ),
    OpCase(
        ("image",),
        "resize(4)|decode_random_crop(4)",
        r"Put (decode\('image'\)) in front",
        "{}|resize(4)",
    ),
    OpCase(
        ("image",),
        "decode|resize(4)|decode_random_crop(4)",
        r"(use resize) or a crop instead of this",
        "decode|resize(4)",
    ),
    OpCase(
        ("mask",),
        "decode_random_crop(4, key='mask')",
        r"by (resize) or a crop",
        "{}(4, key='mask')",
    ),
    OpCase(
        ("image",),
        "flip_lr(key='imag')",
        r"Did you mean ('image')\? Name it with key",
        "flip_lr(key={})",
    ),
    OpCase(
        ("objects",),
        "cast('float16', key='objects/bx')",
        r"Did you mean ('objects/box')\?",
        "cast('float16', key={})",
    ),
    OpCase(("image",), "central_crop(5)", r"Put (resize) in front", "{}(5)|central_crop(5)"),
    OpCase(("image",), "central_crop(5)", r"use (pad_crop)\.", "{}(5)"),
    OpCase(
        ("image",), "cutout(2, fill=0.5)", r"Write an integer from (0) to 255", "cutout(2, fill={})"
    ),
    OpCase(
        ("image",),
        "value_range(0, 1)|randaugment",
        r"Put (randaugment) in front of value_range",
        "{}|value_range(0, 1)",
    ),
    OpCase(
        ("image",),
        "cast('float32')|value_range(0, 1)",
        r"(value_range) once, and in front",
        "{}(0, 1)|cast('float32')",
    ),
    OpCase(("image",), "normalize(0.5, 0.5)", r"Write (scale=255) to", "normalize(0.5, 0.5, {})"),
    OpCase(("image",), "normalize(0.5, 0.5)", r"or (scale=1) if", "normalize(0.5, 0.5, {})"),
    OpCase(
        ("image", "label"),
        "one_hot(4)|mixup(1)",
        r"Put (value_range) or",
        "one_hot(4)|{}(0, 1)|mixup(1)",
    ),
    OpCase(
        ("image", "label"),
        "value_range(0, 1)|mixup(1)",
        r"Put (one_hot) in",
        "value_range(0, 1)|{}(4)|mixup(1)",
    ),
    OpCase(
        ("text",),
        "cast('int32', key='text')",
        r"Put an op that (decodes) it",
        "byte_tokens|pad(4)|cast('int32', key='tokens')",
    ),
    OpCase(("text",), "pad(4, key='text')", r"Put (byte_tokens) in front of texts", "{}|pad(4)"),
    OpCase(("words",), "pad(4, key='words')", r"on the host with (keep_on_host)", "", ("words",)),
    OpCase(("tokens",), "tokens_shift", r"Put (pad) in front", "{}(4)|tokens_shift"),
    OpCase(
        ("text", "label"),
        "byte_tokens(to='label')",
        r"Put (drop\('label'\)) in",
        "{}|byte_tokens(to='label')|pad(3, key='label')",
    ),
    OpCase(
        ("vector", "objects"),
        "rename('vector', 'objects')",
        r"Put (drop\('objects'\)) in",
        "{}|rename('vector', 'objects')",
    ),
    OpCase(
        ("vector", "label"),
        "copy('vector', 'label/x')",
        r"Put (drop\('label'\)) in",
        "{}|copy('vector', 'label/x')",
    ),
    OpCase(("image",), "keep(image)", r"Put ('image') in quotes", "keep({})"),
    OpCase(
        ("image",), "keep[0]", r'Write it like "(.*)"\.', "decode_random_crop(224)|keep('image')"
    ),
    OpCase(("image",), "flip", r"Did you mean '(flip_lr)'\?", "{}"),
    OpCase(("image",), "RandomHorizontalFlip", r"Write (flip_lr)\.", "{}"),
]


@pytest.mark.parametrize("case", OP_CASES, ids=lambda case: f"{case.ops}: {case.pattern}")
def test_hint_of_an_op_works(case: OpCase) -> None:
    message = message_of(lambda: build(features=case.names, preprocess=case.ops))
    ops = case.fixed.format(fragment(case.pattern, message))
    assert build(features=case.names, preprocess=ops, keep_on_host=case.rest)


def test_hint_of_a_taken_name_drops_the_right_one_where_names_have_slashes() -> None:
    batch = {"a/b": tf.zeros([2]), "a": {"b": tf.zeros([2])}, "c": tf.zeros([2])}
    message = message_of(lambda: run("rename('c', ('a', 'b'))", batch))
    drop = fragment(r"Put (drop\(.*\)) in front", message)
    assert sorted(run(f"{drop}|rename('c', ('a', 'b'))", batch)) == ["a", "a/b"]


@pytest.mark.parametrize(
    ("ops", "wrong"),
    [
        ("resize({})", "size=0"),
        ("cutout({})", "size=0"),
        ("central_crop({})", "size=(0, 1)"),
        ("one_hot({})", "num_classes=0"),
        ("decode_central_crop(8, {})", "resize=7"),
        ("decode_random_crop(8, {})", "area=(0.5, 2)"),
        ("inception_crop(8, {})", "ratio=(2, 1)"),
        ("resize_small(4, {})", "method='cubic'"),
        ("resize(4, {})", "antialias=1"),
        ("normalize(mean=0, {})", "std=0"),
        ("normalize(std=1, {})", "mean='a'"),
        ("value_range(lo=0, {})", "hi='a'"),
        ("cast({})", "dtype='flaot32'"),
        ("byte_tokens({})", "eos=1"),
        ("pad({})", "length=0"),
        ("tokens_shift({})", "bos=-1"),
        ("random_crop(4, {})", "padding=-1"),
        ("randaugment({})", "num_layers=0"),
        ("randaugment({})", "magnitude=11"),
        ("randaugment({})", "fill=-1"),
        ("random_erasing({})", "probability=2"),
        ("random_erasing({})", "fill='a'"),
        ("mixup({})", "alpha=0"),
        ("mixup(1, {})", "key='label'"),
        ("cutout(4, {})", "key=''"),
    ],
)
def test_hint_of_a_wrong_argument_works(ops: str, wrong: str) -> None:
    message = message_of(lambda: build_transforms(ops.format(wrong)))
    advice = fragment(r"Write (.*)\.\nIts signature", message)
    if "=" not in advice:  # "224, or (224, 320)"
        advice = f"{wrong.partition('=')[0]}={advice.partition(', or ')[0]}"
    assert build_transforms(ops.format(advice))


def test_hint_of_ops_without_names_works() -> None:
    for name in ("keep", "drop"):
        message = message_of(lambda name=name: build_transforms(f"{name}()"))  # type: ignore[misc]
        ops = f"{name}{fragment(r'Write (.*)[.]', message)}"
        assert build(features=("image", "label"), preprocess=ops)

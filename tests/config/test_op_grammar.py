# SPDX-License-Identifier: Apache-2.0
"""Specs are read as written; everything else is refused, with a caret under the place."""

import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tfjax_batches.config.op_grammar import MAX_CHARACTERS, OpCall, parse_ops, point_at
from tfjax_batches.errors import BatchesError, ConfigError

NESTED = "decode_random_crop(224, area=(0.08, 1.0)) | flip_lr|cast('a|b', keys=['x', {'y': None}])"


def test_parse_spec_reads_names_literals_text_and_offset() -> None:
    crop, flip, cast = parse_ops(NESTED)
    assert crop == OpCall(
        name="decode_random_crop",
        args=(224,),
        kwargs={"area": (0.08, 1.0)},
        text="decode_random_crop(224, area=(0.08, 1.0))",
        offset=0,
    )
    assert flip == OpCall(name="flip_lr", args=(), kwargs={}, text="flip_lr", offset=44)
    assert cast.args == ("a|b",)
    assert cast.kwargs == {"keys": ["x", {"y": None}]}
    assert NESTED[cast.offset :] == cast.text


@pytest.mark.parametrize("spec", ["", "  ", "\n\t "])
def test_parse_spec_blank_holds_no_op(spec: str) -> None:
    assert parse_ops(spec) == ()


def test_parse_spec_takes_lines_and_counts_characters_not_bytes() -> None:
    spec = "\n  rename('größe', 'b')\n  | keep(-1, True)"
    calls = parse_ops(spec)
    assert [call.args for call in calls] == [("größe", "b"), (-1, True)]
    assert [spec[call.offset :].startswith(call.text) for call in calls] == [True, True]


def test_parse_spec_groups_of_ops_are_one_chain() -> None:
    assert [call.name for call in parse_ops("(a | (b | c)) | d")] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("spec", "place", "rule"),
    [
        ("a|", 2, "Python reads: invalid syntax"),
        ("|a", 0, "Python reads: invalid syntax"),
        ("a|b(", 3, "'(' was never closed"),
        ("a b", 2, "Python reads: invalid syntax"),
        ("a|1", 2, "this is neither"),
        ("a|b.c(1)", 2, "this is neither"),
        ("a|b(1)(2)", 2, "this is neither"),
        ("a & b", 0, "this is neither"),
        ("lambda: 1", 0, "this is neither"),
        ("é|b(c)", 4, "'c' is a name, without quotes"),
        ("a(open('x'))", 2, "this is to be computed"),
        ("a(__import__('os').x)", 2, "this is to be computed"),
        ("a(*(1,))", 2, "this is to be computed"),
        ("a(1 + 2)", 2, "this is to be computed"),
        ("a(f'{x}')", 2, "this is to be computed"),
        ("a({1, 2})", 2, "this is to be computed"),
        ("a(2j)", 2, "this is complex"),
        ("a(b'x')", 2, "this is bytes"),
        ("a(...)", 2, "this is ellipsis"),
        ("a(-'x')", 2, "this is none"),
        ("a({[]: 1})", 2, "this is none"),
        ("a(0x1_0000_0000_0000_0000)", 2, "more than 64 bits"),
        ("a(x=1, x=2)", 7, "An argument is given once"),
        ("a(**{'x': 1})", 2, "Arguments are literals"),
        ("a('''x\ny''')", 2, "a line break"),
        ("a # b\n|c", 2, "a comment hides the rest"),
    ],
)
def test_parse_spec_fault_shows_rule_place_and_mend(spec: str, place: int, rule: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_ops(spec)
    first, _, caret, *mend = str(caught.value).split("\n")
    assert rule in first
    assert caret.index("^") == place + 2
    assert mend


def test_parse_spec_too_long_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most 10000 characters; got 10001"):
        parse_ops("a" * (MAX_CHARACTERS + 1))


def test_point_at_shows_a_part_of_a_long_spec() -> None:
    line, caret = point_at("x" * 200 + "!" + "x" * 200, 200).split("\n")
    assert len(line) < 100
    assert line[caret.index("^")] == "!"


def answers_with_calls_or_a_fault(spec: str) -> None:
    try:
        calls = parse_ops(spec)
    except BatchesError:
        return
    assert all(isinstance(call, OpCall) for call in calls)


@settings(max_examples=2_000)
@given(st.text())
@example("a(" + "[" * 300)
@example("a(" + "-" * 5_000 + "1)")
@example("a|" * 4_000 + "a")
@example("a(" + "1" * 5_000 + ")")
@example("a(0x" + "f" * 5_000 + ")")
@example("a\0")
@example("\ud800('\udfff')")
@example("a('\\d')")
@example("a(1if 2else 3)")
def test_parse_spec_any_text_is_answered(spec: str) -> None:
    answers_with_calls_or_a_fault(spec)


PIECES = [*"|()[]{},='\"#\\*-.:é\n\t 01", "flip_lr", "None", "1e999", "key", "f'", "not ", "lambda"]


@settings(max_examples=2_000)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_parse_spec_pieces_of_specs_are_answered(spec: str) -> None:
    answers_with_calls_or_a_fault(spec)


@settings(max_examples=2_000)
@given(
    place=st.integers(0, len(NESTED)),
    cut=st.integers(0, 6),
    new=st.text(st.sampled_from(string.printable + "é\ud800\u2028"), max_size=4),
)
def test_parse_spec_changed_specs_are_answered(place: int, cut: int, new: str) -> None:
    answers_with_calls_or_a_fault(NESTED[:place] + new + NESTED[place + cut :])

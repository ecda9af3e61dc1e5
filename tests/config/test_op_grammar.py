# SPDX-License-Identifier: Apache-2.0
"""Op strings are read as written; all else is an error, with a caret under the place."""

import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tfjax_batches.config.op_grammar import OpCall, parse_ops
from tfjax_batches.errors import BatchesError, ConfigError

NESTED = "decode_random_crop(224, area=(0.08, 1.0)) | flip_lr|cast('a|b', keys=['x', {'y': None}])"


def test_parse_ops_reads_names_literals_and_places() -> None:
    crop, flip, cast = parse_ops(NESTED)
    assert crop == OpCall("decode_random_crop", (224,), {"area": (0.08, 1.0)})
    assert flip == OpCall("flip_lr")
    assert cast.args == ("a|b",)
    assert cast.kwargs == {"keys": ["x", {"y": None}]}
    line, caret = flip.place.split("\n")
    assert line[caret.index("^") :].startswith("flip_lr|")


def test_calls_are_equal_however_they_are_written() -> None:
    plain, spaced = parse_ops("a(-1, x='y')|b"), parse_ops('\n a( -1,x = "y" )\n | b()\n')
    assert plain == spaced
    assert [str(call) for call in spaced] == ["a(-1, x='y')", "b"]
    assert plain != parse_ops("a(-1, x='z')|b")


@pytest.mark.parametrize("ops", ["", "  ", "\n\t "])
def test_parse_ops_blank_holds_no_op(ops: str) -> None:
    assert parse_ops(ops) == ()


def test_parse_ops_takes_lines_and_counts_characters_not_bytes() -> None:
    calls = parse_ops("\n  rename('größe', 'b')\n  | keep(-1, True)")
    assert [call.args for call in calls] == [("größe", "b"), (-1, True)]
    line, caret = calls[1].place.split("\n")
    assert line[caret.index("^") :] == "keep(-1, True)"


def test_parse_ops_groups_of_ops_are_one_chain() -> None:
    assert [call.name for call in parse_ops("(a | (b | c)) | d")] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("ops", "place", "rule"),
    [
        ("a|", 2, "Python reports: invalid syntax"),
        ("|a", 0, "Python reports: invalid syntax"),
        ("a|b(", 3, "'(' was never closed"),
        ("a b", 2, "Python reports: invalid syntax"),
        ("a|1", 2, "this is neither"),
        ("a|b.c(1)", 2, "this is neither"),
        ("a|b(1)(2)", 2, "this is neither"),
        ("a & b", 0, "this is neither"),
        ("lambda: 1", 0, "this is neither"),
        ("é|b(c)", 4, "must be literals"),
        ("a(open('x'))", 2, "must be literals"),
        ("a(__import__('os').x)", 2, "must be literals"),
        ("a(*(1,))", 2, "must be literals"),
        ("a(1 + 2)", 2, "must be literals"),
        ("a(f'{x}')", 2, "must be literals"),
        ("a({1, 2})", 2, "must be literals"),
        ("a(2j)", 2, "must be literals"),
        ("a(b'x')", 2, "must be literals"),
        ("a(...)", 2, "must be literals"),
        ("a(-'x')", 2, "must be literals"),
        ("a({[]: 1})", 2, "must be literals"),
        ("a(0x1_0000_0000_0000_0000)", 2, "at most 64 bits"),
        ("a(x=1, x=2)", 7, "must be given once"),
        ("a(**{'x': 1})", 2, "not by **"),
        ("a # b\n|c", 2, "got a comment"),
    ],
)
def test_parse_ops_error_shows_rule_place_and_fix(ops: str, place: int, rule: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_ops(ops)
    first, _, caret, *fix = str(caught.value).split("\n")
    assert rule in first
    assert caret.index("^") == place + 2
    assert fix


def test_parse_ops_error_shows_a_part_of_a_long_op_string() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_ops(f"{'x|' * 100}a.b{'|x' * 100}")
    _, line, caret, _ = str(caught.value).split("\n")
    assert len(line) < 100
    assert line[caret.index("^") :].startswith("a.b")


def test_parse_ops_bare_name_is_an_error_that_says_to_quote_it() -> None:
    with pytest.raises(ConfigError, match=r"Put 'image' in quotes"):
        parse_ops("keep(image)")


def answers_with_calls_or_an_error(ops: str) -> None:
    try:
        calls = parse_ops(ops)
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
def test_parse_ops_any_text_is_answered(ops: str) -> None:
    answers_with_calls_or_an_error(ops)


PIECES = [*"|()[]{},='\"#\\*-.:é\n\t 01", "flip_lr", "None", "1e999", "key", "f'", "not ", "lambda"]


@settings(max_examples=2_000)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_parse_ops_pieces_of_op_strings_are_answered(ops: str) -> None:
    answers_with_calls_or_an_error(ops)


@settings(max_examples=2_000)
@given(
    place=st.integers(0, len(NESTED)),
    cut=st.integers(0, 6),
    new=st.text(st.sampled_from(string.printable + "é\ud800\u2028"), max_size=4),
)
def test_parse_ops_changed_op_strings_are_answered(place: int, cut: int, new: str) -> None:
    answers_with_calls_or_an_error(NESTED[:place] + new + NESTED[place + cut :])

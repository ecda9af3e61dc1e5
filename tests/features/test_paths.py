# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.errors import FeatureError
from tfjax_batches.features.paths import (
    Name,
    Path,
    choose_paths,
    find_feature,
    find_path,
    flatten,
    nest,
    path_text,
    shortest_name,
    to_path,
)

# COCO's `image` beside `image/filename`; a dict and a key that are one text; a slash in front.
KNOWN = [("/a",), ("a", "b"), ("a", "c", "d"), ("a/b",), ("ab",), ("image",), ("image/filename",)]
KEYS = st.text("ab/é", min_size=1, max_size=3)
NESTED = st.dictionaries(
    KEYS,
    st.recursive(st.integers(), lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3)),
    max_size=3,
)


@given(NESTED)
def test_nest_and_flatten_are_inverses(nested: dict[str, Any]) -> None:
    flat = flatten(nested)
    assert nest(flat) == nested
    assert list(flat) == sorted(flat)


@pytest.mark.parametrize("name", ["", 3, None])
def test_flatten_name_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(
        FeatureError, match=rf"name must be a text, not empty; got {name!r}\. Rename it"
    ):
        flatten({"x": {name: 1}})


@given(NESTED)
def test_name_of_gives_a_name_that_is_found(nested: dict[str, Any]) -> None:
    known = list(flatten(nested))
    for path in known:
        name = shortest_name(path, known)
        assert find_path(name, known) == find_path(path, known) == path
        assert path_text(name) == path_text(path)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("image",), "image"),
        (("image/filename",), "image/filename"),
        (("a", "c", "d"), "a/c/d"),
        (("a/b",), "a/b"),
        (("a", "b"), ("a", "b")),  # the text means the key
    ],
)
def test_name_of_is_a_text_where_that_means_the_path(path: Path, name: Name) -> None:
    assert shortest_name(path, KNOWN) == name


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b", ("a/b",)),  # the key, not the nested one
        (("a", "b"), ("a", "b")),
        ("a/c/d", ("a", "c", "d")),
        ("a/c", ("a", "c")),
        ("/a", ("/a",)),
        ("image", ("image",)),
        ("image/filename", ("image/filename",)),
        (("image", "filename"), None),
        (("a", "c", "e"), None),
        ("c/d", None),
        ("a/", None),
    ],
)
def test_find_path_prefers_the_whole_key_to_joined_ones(name: Name, path: Path | None) -> None:
    assert find_path(name, KNOWN) == path


def test_find_path_of_two_readings_is_refused_with_both() -> None:
    known = [("a", "b/c"), ("a/b", "c"), ("x",)]
    with pytest.raises(FeatureError) as caught:
        find_path("a/b/c", known)
    assert "mean one feature; 'a/b/c' can be read as " in str(caught.value)
    assert "('a', 'b/c') and ('a/b', 'c'). Write one of these tuples" in str(caught.value)
    assert [find_path(path, known) for path in known] == known


def test_find_feature_of_a_dict_is_none() -> None:
    assert find_feature("a/c", KNOWN) is None
    assert find_feature("a/c/d", KNOWN) == ("a", "c", "d")


def test_to_path_nests_at_the_slashes_of_a_text() -> None:
    assert to_path("a/b") == ("a", "b")
    assert to_path(("a/b",)) == ("a/b",)
    assert to_path("/b") == ("/b",)


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        (["a"], [("a", "b"), ("a", "c", "d")]),
        (["a/c"], [("a", "c", "d")]),
        (["ab"], [("ab",)]),
        (["image"], [("image",)]),
        (["a/b", ("a", "c"), "a/c/d"], [("a", "c", "d"), ("a/b",)]),
    ],
)
def test_choose_paths_are_the_named_and_those_below_sorted(
    names: list[Name], paths: list[Path]
) -> None:
    assert choose_paths(iter(KNOWN), names, "rule") == paths


def test_choose_paths_unknown_name_is_named_with_the_nearest() -> None:
    with pytest.raises(FeatureError, match=r"^the rule; 'a/d' .*Did you mean 'a/c/d'\?"):
        choose_paths(KNOWN, ["ab", "a/d"], "the rule")
    with pytest.raises(FeatureError, match=r"\('image', 'filename'\) .*mean 'image/filename'\?"):
        choose_paths(KNOWN, [("image", "filename")], "the rule")

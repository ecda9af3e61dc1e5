# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.errors import FeatureError
from tfjax_batches.features.paths import choose_paths, flatten, nest

NAMES = st.text("abc_é ", min_size=1, max_size=3)
NESTED = st.dictionaries(
    NAMES,
    st.recursive(
        st.integers(), lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    ),
    max_size=3,
)


@given(NESTED)
def test_nest_and_flatten_are_inverses(nested: dict[str, Any]) -> None:
    flat = flatten(nested)
    assert nest(flat) == nested
    assert list(flat) == sorted(flat)


@pytest.mark.parametrize("name", ["a/b", "", 3, None])
def test_flatten_name_that_is_no_part_of_a_path_is_refused(name: object) -> None:
    with pytest.raises(FeatureError, match="name must be a string without '/'"):
        flatten({"x": {name: 1}})


KNOWN = ("a/b", "a/c/d", "ab", "b")


@pytest.mark.parametrize(
    ("name", "paths"), [("a", ["a/b", "a/c/d"]), ("a/c", ["a/c/d"]), ("ab", ["ab"])]
)
def test_choose_paths_below_a_name_are_those_of_whole_names(name: str, paths: list[str]) -> None:
    assert choose_paths(KNOWN, [name], "rule") == paths


def test_choose_paths_are_sorted_and_an_unknown_one_is_named() -> None:
    assert choose_paths(KNOWN, ["b", "a/c", "a"], "rule") == ["a/b", "a/c/d", "b"]
    with pytest.raises(FeatureError, match=r"^the rule; 'a/d' .*Did you mean 'a/c/d'\?"):
        choose_paths(KNOWN, ["b", "a/d"], "the rule")

# SPDX-License-Identifier: Apache-2.0
"""Features stay, go and move by name."""

import numpy as np
import pytest

from tests.preprocess.ops.running import run
from tfjax_batches.errors import FeatureError
from tfjax_batches.features.paths import flatten, path_text

BATCH = {"a": np.arange(2), "b": {"c": np.arange(2) + 2, "d": {"e": np.arange(2) + 4}}}


@pytest.mark.parametrize(
    ("ops", "names"),
    [
        ("keep('a')", ["a"]),
        ("keep('b/d', 'a')", ["a", "b/d/e"]),
        ("keep('b')", ["b/c", "b/d/e"]),
        ("drop('b/c')", ["a", "b/d/e"]),
        ("drop('b/d/e', 'a')", ["b/c"]),
        ("rename('a', 'b/x')", ["b/c", "b/d/e", "b/x"]),
        ("rename('b/d/e', 'b/d')", ["a", "b/c", "b/d"]),
        ("rename('a', 'a/x')", ["a/x", "b/c", "b/d/e"]),
    ],
)
def test_feature_ops_choose_by_name(ops: str, names: list[str]) -> None:
    assert sorted(map(path_text, flatten(run(ops, BATCH)))) == names


def test_rename_keeps_values() -> None:
    result = run("rename('b/d/e', 'x')", BATCH)
    np.testing.assert_array_equal(result["x"], [4, 5])
    np.testing.assert_array_equal(result["b"]["c"], [2, 3])


@pytest.mark.parametrize(
    ("ops", "text"),
    [
        ("keep('a', 'b/cc')", r"in the batch.*'b/cc'.*Did you mean 'b/c'"),
        ("rename('b', 'x')", "'b' is not"),
        ("rename('a', 'b')", r"'b' overlaps with 'b/c'.*drop\('b'\) in front"),
        ("rename('a', 'b/c/x')", "'b/c/x' overlaps with 'b/c'"),
    ],
)
def test_feature_ops_what_they_cannot_find_is_named(ops: str, text: str) -> None:
    with pytest.raises(FeatureError, match=text):
        run(ops, BATCH)

# SPDX-License-Identifier: Apache-2.0
"""Transforms check their fields, and the arguments that their functions take."""

import pytest

import tfjax_batches as tjb
from tfjax_batches.errors import ConfigError


def test_transforms_check_their_own_fields() -> None:
    for kind in (tjb.MapExamples, tjb.MapBatches):
        with pytest.raises(ConfigError, match=r"takes a TensorFlow function; got 3"):
            kind(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"row_multiple must be an integer from 1 .*got 0"):
        tjb.MapBatches(dict, row_multiple=0)
    for value in ("2", 1.5, True):
        with pytest.raises(ConfigError, match=f"row_multiple must be.*got {value!r}"):
            tjb.MapBatches(dict, row_multiple=value)  # type: ignore[arg-type]
    for kind in (tjb.MapExamples, tjb.MapBatches):
        with pytest.raises(ConfigError, match=r"random must be one of True, False; got 'no'"):
            kind(dict, random="no")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"tuple of .*; got 'fixed'"):
            kind(dict, encoded="fixed")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"encoded must be a tuple of feature names; got 3"):
            kind(dict, encoded=3)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"encoded must be the name of a feature.*; got 3"):
            kind(dict, encoded=(3,))  # type: ignore[arg-type]


def test_transform_whose_function_takes_no_seed_or_wants_one_is_an_error_with_the_fix() -> None:
    with pytest.raises(ConfigError, match=r"fn\(features\); got fn\(x, seed\)\. Write random=True"):
        tjb.MapExamples(lambda x, seed: x)
    with pytest.raises(
        ConfigError, match=r"fn\(features, seed\); got fn\(x\)\. Write random=False"
    ):
        tjb.MapBatches(lambda x: x, random=True)
    tjb.MapExamples(lambda x, scale=2.0: x)

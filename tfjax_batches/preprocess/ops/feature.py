# SPDX-License-Identifier: Apache-2.0
"""Ops on which features there are. A path such as `objects` stands for all features below it."""

from typing import Any

from tfjax_batches.errors import ConfigError, FeatureError, nearest_hint
from tfjax_batches.preprocess.argument_checks import check_path
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    check_free,
    feature_paths,
    get_feature,
    with_feature,
    without_features,
)
from tfjax_batches.preprocess.transforms import MapBatches


def keep(*paths: str) -> MapBatches:
    """Leave out all features but some; their values stay as they are.

    Args:
        *paths: Of what stays, at least one.
    """
    _check_paths("keep", paths)

    def fn(batch: Batch) -> dict[str, Any]:
        kept = _find("keep", batch, paths)
        return without_features(batch, set(feature_paths(batch)) - kept)

    return MapBatches(fn)


def drop(*paths: str) -> MapBatches:
    """Leave out some features; the values of the rest stay as they are.

    Args:
        *paths: Of what goes, at least one.
    """
    _check_paths("drop", paths)

    def fn(batch: Batch) -> dict[str, Any]:
        gone = _find("drop", batch, paths)
        if gone == set(feature_paths(batch)):
            raise FeatureError(
                f"drop leaves something; {', '.join(map(repr, paths))} is all there is. "
                "Name fewer features."
            )
        return without_features(batch, gone)

    return MapBatches(fn)


def rename(old: str, new: str) -> MapBatches:
    """Give a feature another path; its values stay as they are.

    Args:
        old: Its path.
        new: A path at which there is nothing.
    """
    check_path("old", old)
    check_path("new", new)

    def fn(batch: Batch) -> dict[str, Any]:
        value = get_feature("rename", batch, old)
        rest = without_features(batch, {old})
        check_free("rename", rest, new)
        return with_feature(rest, new, value)

    return MapBatches(fn)


def _check_paths(op: str, paths: tuple[str, ...]) -> None:
    if not paths:
        raise ConfigError(f"{op} names features; got none. Write {op}('image', 'label').")
    for path in paths:
        check_path("path", path)


def _find(op: str, batch: Batch, names: tuple[str, ...]) -> set[str]:
    """Return the paths of the features that names stand for."""
    known = feature_paths(batch)
    found: set[str] = set()
    for name in names:
        below = {path for path in known if path == name or path.startswith(f"{name}/")}
        if not below:
            raise FeatureError(
                f"{op} names features; the batch has none at {name!r}. {nearest_hint(name, known)}"
            )
        found |= below
    return found

# SPDX-License-Identifier: Apache-2.0
"""Ops that choose and rename features. A path such as `objects` means all features below it."""

from typing import Any

from tfjax_batches.features.paths import choose_paths, flatten
from tfjax_batches.preprocess.argument_checks import check_path, check_paths
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    check_free,
    get_feature,
    with_feature,
    without_features,
)
from tfjax_batches.preprocess.ops.op_table import op
from tfjax_batches.preprocess.transforms import MapBatches


@op
def keep(*paths: str) -> MapBatches:
    """Leave out all features except these; their values do not change.

    Args:
        *paths: Paths of the features that stay, at least one.

    Raises:
        ConfigError: There is no path, or one is not a path.
        FeatureError: The batch has no feature at a path.
    """
    check_paths("paths", paths, least=1)
    return MapBatches(
        lambda batch: without_features(batch, set(flatten(batch)) - _find(batch, paths))
    )


@op
def drop(*paths: str) -> MapBatches:
    """Leave out some features; the values of the others do not change.

    Args:
        *paths: Paths of the features that go, at least one.

    Raises:
        ConfigError: There is no path, or one is not a path.
        FeatureError: The batch has no feature at a path, or none is left.
    """
    check_paths("paths", paths, least=1)
    return MapBatches(lambda batch: without_features(batch, _find(batch, paths)))


@op
def rename(old: str, new: str) -> MapBatches:
    """Give a feature another path; its values do not change.

    Args:
        old: The feature's path.
        new: A path at which there is no feature.

    Raises:
        ConfigError: `old` or `new` is not a path.
        FeatureError: There is no feature at `old`, or there is one at `new`.
    """
    check_path("old", old)
    check_path("new", new)

    def fn(batch: Batch) -> dict[str, Any]:
        value = get_feature(batch, old)
        rest = without_features(batch, {old})
        check_free(rest, new)
        return with_feature(rest, new, value)

    return MapBatches(fn)


def _find(batch: Batch, names: tuple[str, ...]) -> set[str]:
    return set(choose_paths(flatten(batch), names, "The features must be in the batch"))

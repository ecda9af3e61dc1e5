# SPDX-License-Identifier: Apache-2.0
"""Ops that choose, rename and copy features. The name of a dict means all features below it."""

from typing import Any

from tfjax_batches.features.paths import Name, Path, choose_paths, flatten, to_path
from tfjax_batches.preprocess.argument_checks import check_name, check_names
from tfjax_batches.preprocess.ops.batch_features import (
    Batch,
    check_free,
    get_feature,
    path_of,
    with_feature,
    without_features,
)
from tfjax_batches.preprocess.ops.op_table import op
from tfjax_batches.preprocess.transforms import MapBatches


@op
def keep(*paths: Name) -> MapBatches:
    """Leave out all features except these; their values do not change.

    Args:
        *paths: Names of the features that stay, at least one.

    Raises:
        ConfigError: There is no name, or one is not a name.
        FeatureError: The batch has no feature of a name.
    """
    check_names("paths", paths, least=1)
    return MapBatches(
        lambda batch: without_features(batch, set(flatten(batch)) - _find(batch, paths))
    )


@op
def drop(*paths: Name) -> MapBatches:
    """Leave out some features; the values of the others do not change.

    Args:
        *paths: Names of the features that go, at least one.

    Raises:
        ConfigError: There is no name, or one is not a name.
        FeatureError: The batch has no feature of a name, or none is left.
    """
    check_names("paths", paths, least=1)
    return MapBatches(lambda batch: without_features(batch, _find(batch, paths)))


@op
def rename(old: Name, new: Name) -> MapBatches:
    """Give a feature another name; its values do not change.

    Args:
        old: The feature's name.
        new: A name that no feature has; `objects/box` is `box` in the dict `objects`.

    Raises:
        ConfigError: `old` or `new` is not a name.
        FeatureError: There is no feature `old`, or there is one at `new`.
    """
    check_name("old", old)
    check_name("new", new)

    def fn(batch: Batch) -> dict[str, Any]:
        value = get_feature(batch, old)
        rest = without_features(batch, {path_of(batch, old)})
        check_free(rest, to_path(new))
        return with_feature(rest, to_path(new), value)

    return MapBatches(fn)


@op
def copy(old: Name, new: Name) -> MapBatches:
    """Give a feature a second name, so that ops can change each by itself.

    `copy('image', 'view')|inception_crop(96)|inception_crop(96, key='view')` makes two crops.

    Args:
        old: The feature's name.
        new: A name that no feature has; `objects/box` is `box` in the dict `objects`.

    Raises:
        ConfigError: `old` or `new` is not a name.
        FeatureError: There is no feature `old`, or there is one at `new`.
    """
    check_name("old", old)
    check_name("new", new)

    def fn(batch: Batch) -> dict[str, Any]:
        check_free(batch, to_path(new))
        return with_feature(batch, to_path(new), get_feature(batch, old))

    return MapBatches(fn)


def _find(batch: Batch, names: tuple[Name, ...]) -> set[Path]:
    return set(choose_paths(flatten(batch), names, "The features must be in the batch"))

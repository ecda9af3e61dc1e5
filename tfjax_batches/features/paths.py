# SPDX-License-Identifier: Apache-2.0
"""Paths of features, and the names that batches reserve.

A user's batch is a nested dict. Everywhere else it is a flat dict by path: `objects/bbox`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tfjax_batches.errors import FeatureError, nearest_hint

MASK = "_mask"
ID = "_id"
HOST = "_host"
"""The dict of the features that stay on the host."""
RESERVED = (ID, MASK, HOST)


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nested dict of a flat one by path; the inverse of `flatten`."""
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, name = path.split("/")
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
        level[name] = value
    return nested


def flatten(nested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat dict by path of a nested one, sorted by path; the inverse of `nest`."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise FeatureError(
                "A feature's name must be a string without '/', which separates the names of a "
                f"path; got {name!r}. Rename the feature, or nest dicts."
            )
        if isinstance(value, Mapping):
            flat |= {f"{name}/{path}": part for path, part in flatten(value).items()}
        else:
            flat[name] = value
    return dict(sorted(flat.items()))


def choose_paths(known: Iterable[str], names: Iterable[str], rule: str) -> list[str]:
    """Return the known paths that are one of some names, or below one, sorted.

    Args:
        known: Paths of features.
        names: Paths of features, or of nested dicts.
        rule: What the names must be: the first part of the error.
    """
    chosen: set[str] = set()
    for name in names:
        below = [path for path in known if path == name or path.startswith(f"{name}/")]
        if not below:
            raise FeatureError(f"{rule}; {name!r} is not one. {nearest_hint(name, known)}")
        chosen.update(below)
    return sorted(chosen)

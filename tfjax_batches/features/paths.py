# SPDX-License-Identifier: Apache-2.0
"""Paths of features, and the names that batches use themselves.

A batch is a nested dict for users, and a flat one by path for all else.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tfjax_batches.errors import FeatureError, nearest_hint

MASK = "_mask"
ID = "_id"
HOST = "_host"
"""Parent of the features that stay on the host."""
RESERVED = (ID, MASK, HOST)


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flat dict of paths as the nested dict it stands for."""
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, name = path.split("/")
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
        level[name] = value
    return nested


def flatten(nested: Mapping[str, Any]) -> dict[str, Any]:
    """Return a nested dict as a flat one of paths, sorted by path; the inverse of `nest`.

    Raises:
        FeatureError: A name is no string, is empty or has a slash in it.
    """
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise FeatureError(
                f"A feature's name is a string without '/', which paths have between names; got "
                f"{name!r}. Rename it, or nest dicts."
            )
        if isinstance(value, Mapping):
            flat |= {f"{name}/{path}": part for path, part in flatten(value).items()}
        else:
            flat[name] = value
    return dict(sorted(flat.items()))


def choose_paths(known: Iterable[str], names: Iterable[str], rule: str) -> list[str]:
    """Return the known paths that the names stand for, sorted; that of a dict means all below.

    Raises:
        FeatureError: A name stands for none; begins with the `rule`.
    """
    chosen: set[str] = set()
    for name in names:
        below = [path for path in known if path == name or path.startswith(f"{name}/")]
        if not below:
            raise FeatureError(f"{rule}; {name!r} is none. {nearest_hint(name, known)}")
        chosen.update(below)
    return sorted(chosen)

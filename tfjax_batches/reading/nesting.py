# SPDX-License-Identifier: Apache-2.0
"""Batches as nested dicts, for users, and as flat ones by path, for all else."""

from collections.abc import Mapping
from typing import Any

from tfjax_batches.errors import FeatureError


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

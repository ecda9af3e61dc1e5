# SPDX-License-Identifier: Apache-2.0
"""Paths of features, how a user names them, and the names that batches reserve.

A user's batch is a nested dict. Everywhere else it is a flat dict by path, the tuple of its keys:
`("objects", "bbox")`. A key may be any text: COCO has `("image",)` beside `("image/filename",)`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from tfjax_batches.errors import FeatureError, nearest_hint

Path: TypeAlias = tuple[str, ...]
"""The keys from the batch down to a feature, or down to a dict of features."""

Name: TypeAlias = str | tuple[str, ...]
"""How a user names a feature: `"image"`, `"objects/bbox"`, or the tuple of its keys."""

MASK = "_mask"
ID = "_id"
SOURCE = "_source"
HOST = "_host"
"""The dict of the features that stay on the host."""
RESERVED = (SOURCE, ID, MASK, HOST)


def nest(flat: Mapping[Path, Any]) -> dict[str, Any]:
    """Return the nested dict of a flat one by path; the inverse of `flatten`."""
    nested: dict[str, Any] = {}
    for (*parents, key), value in flat.items():
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
        level[key] = value
    return nested


def flatten(nested: Mapping[str, Any]) -> dict[Path, Any]:
    """Return the flat dict by path of a nested one, sorted by path; the inverse of `nest`."""
    flat: dict[Path, Any] = {}
    for key, value in nested.items():
        if not isinstance(key, str) or not key:
            raise FeatureError(
                f"A feature's name must be a text, not empty; got {key!r}. Rename it."
            )
        if isinstance(value, Mapping):
            flat |= {(key, *path): part for path, part in flatten(value).items()}
        else:
            flat[(key,)] = value
    return dict(sorted(flat.items()))


def is_feature_name(value: object) -> bool:
    """Return whether a value is a `Name`."""
    keys = value if isinstance(value, tuple) else (value,)
    return bool(keys) and all(isinstance(key, str) and key for key in keys)


def path_text(path: Name) -> str:
    """Return a path as text, for people; a name that is a text is returned as it is.

    Example:
        >>> path_text(("objects", "bbox"))
        'objects/bbox'
    """
    return path if isinstance(path, str) else "/".join(path)


def shortest_name(path: Path, known: Iterable[Path]) -> Name:
    """Return the shortest name that `find_path` takes for a path among the known ones."""
    text = path_text(path)
    return text if _readings(text, known) == [path] else path


def to_path(name: Name) -> Path:
    """Return the path that a name gives to a new feature: `/` between keys nests."""
    keys = tuple(name.split("/")) if isinstance(name, str) else name
    return keys if all(keys) else (path_text(name),)


def find_path(name: Name, known: Iterable[Path]) -> Path | None:
    """Return the path of the feature, or of the dict of features, that a name means.

    A tuple is the path. A text is the one key that it equals, if there is such a key, and else the
    keys of a path joined by `/`.

    Args:
        name: The name.
        known: Paths of all features.

    Returns:
        The path; None: there is none.

    Raises:
        FeatureError: A text can be read in two ways.

    Example:
        >>> find_path("a/b", [("a", "b", "c"), ("d",)])
        ('a', 'b')
    """
    readings = _readings(name, known)
    if len(readings) > 1:
        listed = " and ".join(map(repr, readings))
        raise FeatureError(
            f"A name must mean one feature; {name!r} can be read as {listed}. Write one of these "
            "tuples of keys in its place."
        )
    return readings[0] if readings else None


def find_feature(name: Name, known: Collection[Path]) -> Path | None:
    """Return the path of the feature that a name means; None: there is none.

    Raises:
        FeatureError: A text can be read in two ways.
    """
    path = find_path(name, known)
    return path if path in known else None


def choose_paths(known: Iterable[Path], names: Iterable[Name], rule: str) -> list[Path]:
    """Return the known paths that some names mean, sorted; a dict means all features below it.

    Args:
        known: Paths of features.
        names: Names of features, or of dicts of features.
        rule: What the names must be: the first part of the error.

    Raises:
        FeatureError: There is no such feature, or a name can be read in two ways.
    """
    known = list(known)
    chosen: set[Path] = set()
    for name in names:
        if (found := find_path(name, known)) is None:
            raise FeatureError(f"{rule}; {name!r} is not one. {feature_hint(name, known)}")
        chosen.update(path for path in known if path[: len(found)] == found)
    return sorted(chosen)


def feature_hint(name: Name, known: Iterable[Path]) -> str:
    """Return a sentence that names the known feature nearest to a name."""
    return nearest_hint(path_text(name), map(path_text, known))


def _readings(name: Name, known: Iterable[Path]) -> list[Path]:
    """Return the paths, of features and of dicts, that a name may mean."""
    nodes = {path[:depth] for path in known for depth in range(1, len(path) + 1)}
    exact = (name,) if isinstance(name, str) else name
    if exact in nodes:
        return [exact]
    return sorted(node for node in nodes if path_text(node) == name)

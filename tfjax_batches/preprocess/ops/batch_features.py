# SPDX-License-Identifier: Apache-2.0
"""Features of a batch by name, and the checks that ops make of them.

A batch is a nested dict. Nothing here changes one: each function returns a new dict. Messages do
not name the op, since whoever runs a transform puts its name in front.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import FeatureError
from tfjax_batches.features.paths import (
    Name,
    Path,
    feature_hint,
    find_feature,
    flatten,
    nest,
    path_text,
    shortest_name,
)
from tfjax_batches.features.rows import Value
from tfjax_batches.preprocess.argument_checks import check_name
from tfjax_batches.preprocess.transforms import MapBatches

Batch = Mapping[str, Any]


def path_of(batch: Batch, name: Name) -> Path:
    """Return the path of the feature that a name means."""
    features = flatten(batch)
    if (path := find_feature(name, features)) is None:
        raise FeatureError(
            f"The feature must be in the batch; {name!r} is not. "
            f"{feature_hint(name, features)} Name it with key."
        )
    return path


def get_feature(batch: Batch, name: Name) -> Value:
    """Return a feature."""
    return flatten(batch)[path_of(batch, name)]


def with_feature(batch: Batch, path: Path, value: Value) -> dict[str, Any]:
    """Return the batch with `value` at a path, new or not."""
    return nest({**flatten(batch), path: value})


def without_features(batch: Batch, paths: Collection[Path]) -> dict[str, Any]:
    """Return the batch without the features at some paths."""
    return nest({path: value for path, value in flatten(batch).items() if path not in paths})


def check_free(batch: Batch, new: Path) -> None:
    """Raise if a feature is at, above or below the path of a new one."""
    features = flatten(batch)
    for path in features:
        shared = path[: len(new)]
        if shared == new[: len(shared)]:
            taken = shortest_name(shared, features)
            raise FeatureError(
                f"A new feature needs a free name; {path_text(new)!r} overlaps with "
                f"{path_text(path)!r}. Put drop({taken!r}) in front, or choose another."
            )


def check_feature(fits: bool, rule: str, name: Name, value: Value, fix: str) -> None:
    """Raise if a feature does not fit an op."""
    if not fits:
        raise FeatureError(f"{rule}; {name!r} is {describe(value)}. {fix}")


def map_feature(
    fn: Callable[..., Value],
    key: Name,
    *,
    get: Callable[[Batch, Name], Value] = get_feature,
    random: bool = False,
    encoded: bool = False,
) -> MapBatches:
    """Return the transform that replaces one feature with a function of it.

    Args:
        fn: `fn(value)`, or `fn(value, seeds)` if `random`.
        key: Name of the feature.
        get: `get(batch, key)` returns the value, or raises FeatureError if the op cannot take it.
        random: As in `MapBatches`.
        encoded: Whether `fn` takes the stored bytes of the feature.
    """
    check_name("key", key)

    def apply(batch: Batch, *seeds: tf.Tensor) -> dict[str, Any]:
        return with_feature(batch, path_of(batch, key), fn(get(batch, key), *seeds))

    return MapBatches(apply, random=random, encoded=(key,) if encoded else ())


def get_numbers(batch: Batch, name: Name) -> Value:
    """Return a feature that holds numbers or bools."""
    value = get_feature(batch, name)
    fix = "Put an op that decodes it in front, or name another feature with key."
    check_feature(value.dtype != tf.string, "The feature must hold numbers", name, value, fix)
    return value


def get_images(batch: Batch, name: Name) -> tf.Tensor:
    """Return images of one size, [n, h, w, c]."""
    images = get_images_of_any_size(batch, name)
    is_dense = not isinstance(images, tf.RaggedTensor)
    fix = "Put resize or a crop in front."
    check_feature(is_dense, "The images must be of one size", name, images, fix)
    return images


def get_images_of_any_size(batch: Batch, name: Name) -> Value:
    """Return images [n, h, w, c], or [n, (h), (w), c] as a ragged tensor."""
    images = get_feature(batch, name)
    are_images = images.dtype != tf.string and images.shape.rank == 4
    fix = "Name a feature of images with key."
    if images.dtype == tf.string:
        fix = f"Put decode({name!r}) in front, or name a feature of images with key."
    check_feature(are_images, "Images must be [n, h, w, c]", name, images, fix)
    return images


def map_values(value: Value, fn: Callable[[tf.Tensor], tf.Tensor]) -> Value:
    """Apply an element-wise function to a dense or ragged feature."""
    if isinstance(value, tf.RaggedTensor):
        return value.with_flat_values(fn(value.flat_values))
    return fn(value)


def as_element(argument: str, number: float, name: Name, value: Value) -> np.generic:
    """Return an argument's number as an element of a feature, which holds numbers or bools."""
    dtype = value.dtype
    low, high = (0, 1) if dtype.is_bool else (dtype.min, dtype.max)
    is_whole = dtype.is_floating or number == int(number)
    if not is_whole or not low <= number <= high:
        kind = "a number" if dtype.is_floating else "an integer"
        raise FeatureError(
            f"{argument} must be a value that the feature's dtype can hold; {name!r} is "
            f"{describe(value)}, {argument} is {number}. Write {kind} from {low} to {high}."
        )
    element: np.generic = dtype.as_numpy_dtype(number)
    return element


def describe(value: Value) -> str:
    """Return dtype and shape, for messages."""
    ragged = "ragged " if isinstance(value, tf.RaggedTensor) else ""
    shape = ", ".join("?" if size is None else str(size) for size in value.shape)
    return f"{ragged}{value.dtype.name}[{shape}]"

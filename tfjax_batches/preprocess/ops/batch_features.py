# SPDX-License-Identifier: Apache-2.0
"""Features of a batch or an example by path, and what an op asks of one.

A batch is a nested dict. Nothing here changes one: each function returns a new dict.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import FeatureError, nearest_hint

Batch = Mapping[str, Any]
Value: TypeAlias = tf.Tensor | tf.RaggedTensor


def feature_paths(batch: Batch, above: str = "") -> list[str]:
    """Return the paths of all features, such as `objects/bbox`, in order."""
    paths = []
    for name, value in batch.items():
        path = f"{above}{name}"
        paths += feature_paths(value, f"{path}/") if isinstance(value, Mapping) else [path]
    return paths


def get_feature(op: str, batch: Batch, path: str) -> Value:
    """Return the feature at a path.

    Raises:
        FeatureError: There is none; names `op`, the op that asks.
    """
    value: Any = batch
    for name in path.split("/"):
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None or isinstance(value, Mapping):
        known = feature_paths(batch)
        raise FeatureError(
            f"{op} takes a feature; the batch has none at {path!r}. {nearest_hint(path, known)} "
            "Name it with key."
        )
    return value


def with_feature(batch: Batch, path: str, value: Value) -> dict[str, Any]:
    """Return the batch with `value` at a path, whether or not there was a feature."""
    name, _, below = path.partition("/")
    if not below:
        return {**batch, name: value}
    part = batch.get(name)
    return {
        **batch,
        name: with_feature(part if isinstance(part, Mapping) else {}, below, value),
    }


def without_features(batch: Batch, paths: set[str], above: str = "") -> dict[str, Any]:
    """Return the batch without the features at some paths, and without dicts that hold none."""
    kept: dict[str, Any] = {}
    for name, value in batch.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping):
            value = without_features(value, paths, f"{path}/")
            if value:
                kept[name] = value
        elif path not in paths:
            kept[name] = value
    return kept


def check_free(op: str, batch: Batch, new: str) -> None:
    """Raise FeatureError unless there is nothing at, above or below the path of a new feature."""
    for path in feature_paths(batch):
        if path == new or path.startswith(f"{new}/") or new.startswith(f"{path}/"):
            raise FeatureError(
                f"{op} takes a path at which there is nothing; {path!r} is in the way of {new!r}. "
                "Drop it in front, or give either another path."
            )


def map_values(value: Value, fn: Callable[[tf.Tensor], tf.Tensor]) -> Value:
    """Apply a function of single elements, dense or ragged."""
    if isinstance(value, tf.RaggedTensor):
        return value.with_flat_values(fn(value.flat_values))
    return fn(value)


def check_numeric(op: str, path: str, value: Value) -> None:
    """Raise FeatureError unless a feature holds numbers."""
    if value.dtype == tf.string:
        raise FeatureError(
            f"{op} takes numbers; {path!r} is {describe(value)}. "
            "Put an op in front that decodes it, or name another feature with key."
        )


def as_element(op: str, argument: str, number: float, path: str, value: Value) -> np.generic:
    """Return a number as an element of a feature.

    Args:
        op: Which op puts it there, for messages.
        argument: The op's argument that gives it, for messages.
        number: Finite.
        path: Of the feature.
        value: The feature: numbers or bools.

    Raises:
        FeatureError: Its dtype cannot hold the number, or not as it is where integers are.
    """
    dtype = value.dtype
    if dtype.is_floating or dtype.is_complex:
        with np.errstate(over="ignore"):
            element: Any = np.asarray(number).astype(dtype.as_numpy_dtype)
        is_held = bool(np.isfinite(element))
        low, high = dtype.real_dtype.min, dtype.real_dtype.max
    else:
        low, high = (0, 1) if dtype.is_bool else (dtype.min, dtype.max)
        is_held = number == int(number) and low <= number <= high
        element = np.asarray(int(number) if is_held else 0).astype(dtype.as_numpy_dtype)
    if not is_held:
        integer = "" if dtype.is_floating or dtype.is_complex else "an integer, "
        raise FeatureError(
            f"{op} puts in a value that the feature can hold; {path!r} is {describe(value)}, and "
            f"{argument} is {number}. Write {integer}{low} to {high}."
        )
    held: np.generic = element[()]
    return held


def get_images(op: str, batch: Batch, path: str, *, ragged: bool = False) -> Value:
    """Return images [n, h, w, c].

    Args:
        op: Which op asks, for messages.
        batch: Features.
        path: Of the images.
        ragged: They may be of several sizes, as a ragged tensor [n, (h), (w), c].

    Raises:
        FeatureError: They are no images, or not what the op can take.
    """
    images = get_feature(op, batch, path)
    fault = f"{op} takes images [n, h, w, c]; {path!r} is {describe(images)}"
    if images.dtype == tf.string:
        raise FeatureError(
            f"{fault}: encoded bytes. Swap {op} with the op behind it that decodes them, or put "
            f"decode('{path}') in front."
        )
    if images.shape.rank != 4:
        raise FeatureError(f"{fault}. Name a feature of images with key.")
    if isinstance(images, tf.RaggedTensor) and not ragged:
        raise FeatureError(f"{fault}: images of several sizes. Put resize or a crop in front.")
    return images


def describe(value: Value) -> str:
    """Return dtype and shape, for messages."""
    ragged = "ragged " if isinstance(value, tf.RaggedTensor) else ""
    shape = ", ".join("?" if size is None else str(size) for size in value.shape)
    return f"{ragged}{value.dtype.name}[{shape}]"

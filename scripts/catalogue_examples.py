# SPDX-License-Identifier: Apache-2.0
"""Writes examples with TFDS, reads them with TFDS and with this loader, and compares both.

An example that was read is a nested dict with the keys of TFDS. A value is an array, or a list of
values where sizes may differ within the example.
"""

import ast
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from random_examples import name_labels, random_example

import tfjax_batches as tjb

NUM_EXAMPLES = 3
BATCH_SIZE = 2  # the last batch has a row of padding


class Written(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[misc, call-arg]
    """Random examples of given features."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, features: tfds.features.FeaturesDict, data_dir: str) -> None:
        self._given = features
        super().__init__(data_dir=data_dir)

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(builder=self, features=self._given, disable_shuffling=True)

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, Any]]:
        for number in range(NUM_EXAMPLES):
            yield number, random_example(self._given, number)


def write_examples(features: tfds.features.FeaturesDict, data_dir: str) -> Written:
    """Write random examples with TFDS's own writer, and return their builder."""
    name_labels(features)
    builder = Written(features, data_dir)
    builder.download_and_prepare()
    return builder


def read_with_tfds(builder: tfds.core.DatasetBuilder) -> list[Any]:
    """Return the examples that `as_dataset` yields."""
    dataset = builder.as_dataset(split="train", shuffle_files=False)
    return [_as_example(example) for example in dataset]


def read_with_loader(builder: tfds.core.DatasetBuilder, **fields: Any) -> list[Any]:
    """Return the examples of the batches of a loader, those on the host among the others."""
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("data",))
    loader = tjb.build(
        builder,
        tjb.data_sharding(mesh),
        global_batch_size=BATCH_SIZE,
        shuffle="none",
        num_epochs=1,
        remainder="pad",
        **fields,
    )
    examples = []
    with iter(loader) as batches:
        for batch in batches:
            mask = batch.pop("_mask")
            host = batch.pop("_host", {})
            device = jax.tree.map(lambda array: np.asarray(array).view(OnDevice), batch)
            features = _merge(device, host)
            examples += [_row(features, row) for row in range(BATCH_SIZE) if mask[row]]
    return examples


def read_as_advised(
    builder: tfds.core.DatasetBuilder, *, pad: bool
) -> tuple[list[Any], dict[str, Any]]:
    """Return the examples that the loader reads after following the advice of its errors.

    Args:
        builder: The dataset.
        pad: Whether to follow `pad_to` before `keep_on_host`.

    Returns:
        The examples, and the fields that were advised.

    Raises:
        tjb.BatchesError: There is no new advice.
    """
    fields: dict[str, Any] = {"keep_on_host": (), "pad_to": {}}
    while True:
        try:
            return read_with_loader(builder, **fields), fields
        except tjb.FeatureError as error:
            advice = find_advice(str(error))
            if pad and "pad_to" in advice and not fields["pad_to"]:
                fields["pad_to"] = advice["pad_to"]
            elif new := set(advice.get("keep_on_host", ())) - set(fields["keep_on_host"]):
                fields["keep_on_host"] += tuple(new)
            else:
                raise


def find_advice(message: str) -> dict[str, Any]:
    """Return the values of the fields that an error advises, as written there in Python."""
    advice = {}
    for name, closing in (("keep_on_host", ")"), ("pad_to", "}")):
        start = message.find(f"{name}=") + len(name) + 1
        end = start
        # A feature's name may hold brackets.
        while name not in advice and (end := message.find(closing, end) + 1):
            with contextlib.suppress(SyntaxError):
                advice[name] = ast.literal_eval(message[start:end])
    return advice


def find_differences(found: Any, expected: Any, path: str = "") -> list[str]:
    """Return the differences between an example of the loader and one of TFDS, a text each.

    The loader's may have padding, with the length beside it, and 32 bits on devices for 64.
    """
    if isinstance(expected, Mapping):
        found = _without_padding(found, expected) if isinstance(found, Mapping) else {}
        if names := found.keys() ^ expected.keys():
            return [f"{path or 'the example'}: only one of both has {sorted(names)}"]
        parts = [(found[name], value, f"{path}/{name}") for name, value in expected.items()]
    elif isinstance(expected, list):
        if len(found) != len(expected):
            return [f"{path}: {len(found)} elements, not {len(expected)}"]
        parts = [(_row(found, row), value, f"{path}[]") for row, value in enumerate(expected)]
    else:
        return _find_difference(found, expected, path)
    return [difference for part in parts for difference in find_differences(*part)]


def _find_difference(found: Any, expected: Any, path: str) -> list[str]:
    expected = _as_array(expected)
    if isinstance(found, OnDevice):
        expected = expected.astype(jax.dtypes.canonicalize_dtype(expected.dtype), copy=False)
    found = _as_array(found)
    forms = [f"{array.dtype}{list(array.shape)}" for array in (found, expected)]
    # The sizes of the elements of an empty sequence are lost.
    is_empty = found.shape[:1] == expected.shape[:1] == (0,) and found.ndim == expected.ndim
    if found.dtype != expected.dtype or (found.shape != expected.shape and not is_empty):
        return [f"{path}: {forms[0]}, not {forms[1]}"]
    if not is_empty and not np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f"):
        return [f"{path}: other values of {forms[0]}"]
    return []


def _without_padding(found: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """Return the features of a dict without the lengths that `pad_to` added, each cut to its."""
    lengths = {name: f"{name}_length" for name in found if f"{name}_length" in found}
    lengths = {name: length for name, length in lengths.items() if length not in expected}
    features = {name: found[name] for name in found.keys() - set(lengths.values())}
    for name, length in lengths.items():
        end = int(found[length])
        if not features[name][end:].any():
            features[name] = features[name][:end]
    return features


class OnDevice(np.ndarray):
    """Values that were in a `jax.Array`."""


def _merge(device: Mapping[str, Any], host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the features of a batch, those of the host in their places among the others."""
    merged = {}
    for name in device.keys() | host.keys():
        parts = [features[name] for features in (device, host) if name in features]
        if isinstance(parts[0], Mapping):
            merged[name] = _merge(device.get(name, {}), host.get(name, {}))
        else:
            (merged[name],) = parts
    return merged


def _row(value: Any, row: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _row(part, row) for name, part in value.items()}
    # The ellipsis makes even a number an array, which stays `OnDevice`.
    return value[row, ...] if isinstance(value, OnDevice) else value[row]


def _as_example(value: Any) -> Any:
    """Return an example of TFDS with arrays, a nested dataset as one feature for each name."""
    if isinstance(value, Mapping):
        return {name: _as_example(part) for name, part in value.items()}
    if isinstance(value, tf.RaggedTensor):
        return [_as_example(row) for row in value]
    if isinstance(value, tf.data.Dataset):
        return _join(value.element_spec, [_as_example(element) for element in value])
    return value.numpy()


def _join(spec: Any, elements: list[Any]) -> Any:
    """Return the elements of a nested dataset as lists by name."""
    if isinstance(spec, tf.data.DatasetSpec):
        spec = spec.element_spec
    if isinstance(spec, Mapping):
        return {name: _join(spec[name], [each[name] for each in elements]) for name in spec}
    return elements


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    # NumPy's own strings cut zeros at the end.
    return np.array(value, object) if isinstance(value, bytes) else np.asarray(value)

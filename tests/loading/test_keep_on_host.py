# SPDX-License-Identifier: Apache-2.0
"""Features that stay on the host, and those that never reach a device in silence."""

import json
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import tfjax_batches as tjb

ALL = ("big", "text", "words", "objects", "paths", "photo")
HOST_PATHS = ["big", "objects/bbox", "objects/label", "paths", "photo", "text", "words"]


def build(folder: str, **fields: Any) -> tjb.BatchLoader:
    return tjb.build(folder, **{"global_batch_size": 4, "with_ids": True, **fields})


def tfds_examples(folder: str) -> list[dict[str, Any]]:
    dataset = tfds.builder_from_directory(folder).as_dataset(split="train")
    return list(dataset)


def flat(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, part in tree.items():
        leaf = f"{path}/{name}".lstrip("/")
        leaves |= flat(part, leaf) if isinstance(part, dict) else {leaf: part}
    return leaves


def plain(value: Any) -> Any:
    """Return a value as nested lists, whichever library made it."""
    if isinstance(value, tf.RaggedTensor):
        return value.to_list()
    array = np.asarray(value)
    return [plain(x) for x in array] if array.dtype == object and array.ndim else array.tolist()


@pytest.mark.parametrize("group_size", [None, 1, 3])
@pytest.mark.parametrize("prefetch_depth", [0, 2])
def test_keep_on_host_every_kind_equals_tfds(
    things_folder: str, group_size: int | None, prefetch_depth: int
) -> None:
    expected = tfds_examples(things_folder)
    loader = build(
        things_folder,
        keep_on_host=ALL,
        num_epochs=2,
        group_size=group_size,
        prefetch_depth=prefetch_depth,
    )
    steps = 0
    with iter(loader) as batches:
        for batch in batches:
            assert set(batch) == {"_host", "_id", "number"}
            host = flat(batch["_host"])
            assert sorted(host) == HOST_PATHS
            for path, values in host.items():
                assert isinstance(values, np.ndarray)
                assert len(values) == 4
                for row, example_id in enumerate(np.asarray(batch["_id"])):
                    value = flat(expected[example_id])[path]
                    assert plain(values[row]) == plain(value), path
            steps += 1
    assert steps == len(loader) == 5


def test_keep_on_host_rows_are_read_only_arrays_of_their_own_shape(things_folder: str) -> None:
    loader = build(things_folder, keep_on_host=ALL, shuffle="none")
    with iter(loader) as batches:
        host = next(batches)["_host"]
    assert host["big"].dtype == np.int64
    assert host["big"].tolist() == [2**40 + i for i in range(4)]
    assert host["text"].dtype == host["photo"].dtype == object
    assert host["text"][1] == "naïve ".encode()
    assert [row.shape for row in host["photo"]] == [(2, 3, 3), (3, 3, 3), (4, 3, 3), (2, 3, 3)]
    assert [row.dtype for row in host["photo"]] == [np.uint8] * 4
    assert [row.shape for row in host["objects"]["bbox"]] == [(2, 4), (3, 4), (4, 4), (0, 4)]
    assert host["words"][2].tolist() == [b"word 0", b"word 1"]
    # Sequences of sequences: arrays of arrays, whatever their lengths.
    assert [row.dtype for row in host["paths"]] == [object] * 4
    assert [part.tolist() for part in host["paths"][2]] == [[], [0]]
    rows = [host["photo"][0], host["objects"]["bbox"][0], host["paths"][2], host["paths"][2][1]]
    for array in (*flat(host).values(), *rows):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array


def test_keep_on_host_padding_rows_are_empty_or_zero(things_folder: str) -> None:
    loader = build(
        things_folder, keep_on_host=(*ALL, "number"), num_epochs=1, remainder="pad", shuffle="none"
    )
    *_, batch = iter(loader)
    assert np.asarray(batch["_mask"]).tolist() == [True] * 3 + [False]
    host = batch["_host"]
    assert host["number"].tolist() == [8, 9, 10, 0]
    assert (host["big"][3], host["text"][3]) == (0, b"")
    assert host["text"][2] != b""
    assert host["photo"][3].shape == (0, 0, 3)
    assert host["objects"]["bbox"][3].shape == (0, 4)
    assert host["objects"]["label"][3].shape == host["paths"][3].shape == (0,)
    assert host["words"][3].tolist() == []
    assert len(host["photo"][2]) == 3


def test_keep_on_host_is_not_in_element_spec_but_in_dataset_and_host_batches(
    things_folder: str,
) -> None:
    loader = build(things_folder, keep_on_host=ALL)
    assert sorted(loader.element_spec) == ["_id", "number"]
    spec = loader.dataset().element_spec["_host"]
    assert spec["text"] == tf.TensorSpec([4], tf.string)
    assert isinstance(spec["objects"]["bbox"], tf.RaggedTensorSpec)
    local, tensors = next(loader.host_batches()), next(iter(loader.dataset()))
    for path, values in flat(local).items():
        assert plain(values) == plain(flat(tensors)[path]), path


def test_keep_on_host_of_a_nested_path_means_all_below(numbers_folder: str) -> None:
    with iter(build(numbers_folder, keep_on_host=("nested",))) as batches:
        batch = next(batches)
    assert sorted(batch["_host"]["nested"]) == ["even", "image"]
    assert batch["_host"]["nested"]["image"].shape == (4, 4, 5, 3)
    assert "nested" not in batch


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"keep_on_host": ("txet",)},
            "features that batches of things/1.0.0 hold; 'txet' is not one. Did you mean 'text'?",
        ),
        (
            {"keep_on_host": ("text",), "features": ("number",)},
            "keep_on_host names features that batches of things/1.0.0 hold; 'text' is not one.",
        ),
        ({"features": ("text", "number")}, "  text: a string\n"),
        ({"features": ("words", "number")}, "  words: strings of shape (None,)\n"),
        ({"features": ("paths", "number")}, "  paths: int64 of shape (None, None)\n"),
        ({"features": ("photo", "number")}, "features=('number',); or leave them on the host: "),
        ({"features": ("photo", "text"), "keep_on_host": ("text",)}, "=('photo', 'text')"),
    ],
)
def test_build_feature_that_no_device_holds_is_named(
    things_folder: str, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(tjb.FeatureError) as caught:
        build(things_folder, **fields)
    assert text in str(caught.value)


def test_iter_value_beyond_32_bits_is_refused_at_its_step(things_folder: str) -> None:
    loader = build(things_folder, features=("big",))
    with (
        iter(loader) as batches,
        pytest.raises(tjb.FeatureError, match=r"'big' is int64 and 10995\d+ is not a value"),
    ):
        next(batches)


def test_check_replicas_passes_over_the_host_entry(things_folder: str) -> None:
    with iter(build(things_folder, keep_on_host=ALL)) as batches:
        batch = next(batches)
    tjb.check_replicas(batch)
    with pytest.raises(tjb.ConfigError, match="_host/big is a ndarray"):
        tjb.check_replicas({"inner": batch})


def test_restore_goes_on_with_the_same_host_features(things_folder: str) -> None:
    loader = build(things_folder, keep_on_host=ALL, seed=3)
    with iter(loader) as batches:
        next(batches)
        state = json.loads(json.dumps(batches.get_state()))
        expected = next(batches)
    with loader.restore(state) as batches:
        found = next(batches)
    jax.tree.map(lambda a, b: np.testing.assert_equal(plain(a), plain(b)), found, expected)
    with pytest.raises(tjb.StateError, match=r"keep_on_host: saved .*\"big\".* set keep_on_host b"):
        build(things_folder, keep_on_host=(*ALL, "number"), seed=3).restore(state)

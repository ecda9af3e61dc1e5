# SPDX-License-Identifier: Apache-2.0
"""Features whose own names hold slashes, as those of COCO and of many robot datasets do."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import flags
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tests.made_datasets import LABELS, make_slashes, slash_example

PADDED = {
    "pad_to": {"objects/bbox": 3, "objects/label": 3},
    "keep_on_host": ("image/filename",),
}
TUPLES = {
    "pad_to": {("objects", "bbox"): 3, ("objects", "label"): 3},
    "keep_on_host": (("image/filename",),),
}
ON_DEVICE = ["/a", "image", "image/id", "objects", "observation/image", "scene/label"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_slashes(tmp_path_factory.mktemp("slashes"))


def build(folder: str, *args: Any, **fields: Any) -> tjb.BatchLoader:
    return tjb.build(folder, *args, global_batch_size=4, shuffle="none", **fields)


def first_batch(folder: str, *args: Any, **fields: Any) -> dict[str, Any]:
    with iter(build(folder, *args, **fields)) as batches:
        return next(batches)


def test_batches_have_the_names_and_values_of_tfds(folder: str) -> None:
    loader = build(folder, **PADDED, num_epochs=1)
    assert list(loader.element_spec) == ON_DEVICE
    examples = tfds.builder_from_directory(folder).as_dataset(split="train").as_numpy_iterator()
    rows = 0
    for batch in iter(loader):
        host, objects = batch.pop("_host"), batch.pop("objects")
        assert list(host) == ["image/filename"]
        for row, example in zip(range(4), examples, strict=False):
            count = min(3, len(example["objects"]["label"]))
            for name, part in example.pop("objects").items():
                np.testing.assert_array_equal(objects[name][row][:count], part)
            assert host["image/filename"][row] == example.pop("image/filename")
            assert example.keys() == batch.keys()
            for name, value in example.items():
                np.testing.assert_array_equal(batch[name][row], value, err_msg=name)
            rows += 1
    assert rows == 8


@pytest.mark.parametrize("name", ["image", "image/id", "observation/image", "/a", ("image",)])
def test_features_take_just_the_one_of_a_name(folder: str, name: Any) -> None:
    batch = first_batch(folder, features=(name,))
    assert list(batch) == ["".join(name)]


def test_features_of_a_dict_are_all_below_it(folder: str) -> None:
    batch = first_batch(folder, features=("objects",), pad_to={"objects": 2})
    assert list(batch["objects"]) == ["bbox", "bbox_length", "label", "label_length"]


@pytest.mark.parametrize(
    ("ops", "names"),
    [
        ("keep('image')", ["image"]),
        ("keep('image/id', 'observation/image')", ["image/id", "observation/image"]),
        ("drop('image')", ["/a", "image/id", "observation/image"]),
        ("drop('/a', 'image/id')", ["image", "observation/image"]),
        ("keep('/a')|rename('/a', ('x/y',))", ["x/y"]),
        ("keep('image/id')|rename('image/id', 'id')", ["id"]),
        ("keep('image/id')|cast('float32', key=('image/id',))", ["image/id"]),
    ],
)
def test_ops_choose_and_rename_by_such_names(folder: str, ops: str, names: list[str]) -> None:
    features = ("image", "image/id", "observation/image", "/a")
    assert sorted(build(folder, features=features, preprocess=ops).element_spec) == names


def test_ops_change_the_feature_of_such_a_name(folder: str) -> None:
    ops = (
        "value_range(0, 1, 'image')|decode('observation/image')"
        "|pad_crop((2, 3), 'observation/image')|rename('observation/image', 'o/i')"
    )
    batch = first_batch(folder, features=("image", "observation/image"), preprocess=ops)
    np.testing.assert_array_equal(
        batch["o"]["i"], [slash_example(i)["observation/image"] for i in range(4)]
    )
    np.testing.assert_allclose(batch["image"][:, 0, 0, 0], np.arange(4) / 255, rtol=1e-6)


@pytest.mark.parametrize("name", ["observation/image", ("observation/image",)])
def test_encoded_gives_the_bytes_of_such_a_name(folder: str, name: Any) -> None:
    def decode_png(example: dict[str, Any]) -> dict[str, Any]:
        image = tf.io.decode_png(example["observation/image"])
        return {"image": tf.ensure_shape(image, (2, 3, 3))}

    transforms = [tjb.MapExamples(decode_png, encoded=(name,))]
    batch = first_batch(folder, features=("observation/image",), transforms=transforms)
    np.testing.assert_array_equal(
        batch["image"], [slash_example(i)["observation/image"] for i in range(4)]
    )


def test_feature_shardings_place_by_such_names(folder: str) -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    own = {
        "image": NamedSharding(mesh, PartitionSpec("data", "model")),
        "image/id": NamedSharding(mesh, PartitionSpec("model")),
        "observation/image": NamedSharding(mesh, PartitionSpec(None, ("model",))),
    }
    common = NamedSharding(mesh, PartitionSpec("data"))
    batch = first_batch(folder, common, feature_shardings=own, features=tuple(own))
    assert {name: array.sharding for name, array in batch.items()} == own


def test_filter_is_given_the_feature_of_such_a_name(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    above = tjb.FilterExamples(lambda n: n >= 104, features=("image/id",), name="above")
    assert first_batch(folder, features=("image/id",), filter=above)["image/id"].tolist() == [
        *range(104, 108)
    ]


def test_label_names_are_by_name(folder: str) -> None:
    names = build(folder, **PADDED).label_names
    assert names == {"objects/label": LABELS, "scene/label": LABELS}


def test_tuples_of_keys_name_the_same_run_and_restore_it(folder: str) -> None:
    loader, named = build(folder, **PADDED), build(folder, **TUPLES)
    assert named.fingerprint == loader.fingerprint
    with iter(loader) as batches:
        next(batches)
        state = json.loads(json.dumps(batches.get_state()))
        expected = next(batches)
    with named.restore(state) as batches:
        found = next(batches)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_flags_take_such_names(folder: str) -> None:
    values = flags.FlagValues()
    tjb.define_batch_flags(flag_values=values)
    values(["", "--features=image/id,objects/bbox,image/filename", "--pad_to=objects/bbox=2"])
    config = tjb.batch_config_from_flags(
        flag_values=values, dataset=folder, global_batch_size=4, keep_on_host=("image/filename",)
    )
    assert list(tjb.build(config).element_spec) == ["image/id", "objects"]
    for field, given in TUPLES.items():
        values[field].value = given
    again = flags.FlagValues()
    tjb.define_batch_flags(flag_values=again)
    again(["", *(values[field].serialize() for field in TUPLES)])
    assert {field: again[field].value for field in TUPLES} == PADDED


def both_readings(batch: dict[str, Any]) -> dict[str, Any]:
    return {"a": {"b/c": batch["/a"]}, "a/b": {"c": batch["/a"] + 1}, "a/b/d": batch["image/id"]}


def test_name_of_two_readings_is_refused_with_the_tuples_that_work(folder: str) -> None:
    fields: dict[str, Any] = {
        "features": ("/a", "image/id"),
        "transforms": [tjb.MapBatches(both_readings)],
    }
    with pytest.raises(tjb.FeatureError, match=r"\('a', 'b/c'\) and \('a/b', 'c'\)\. Write one"):
        build(folder, **fields, keep_on_host=("a/b/c",))
    batch = first_batch(folder, **fields, keep_on_host=(("a/b", "c"), "a/b/d"))
    assert batch["_host"].keys() == {"a/b", "a/b/d"}
    assert batch["_host"]["a/b"]["c"].tolist() == [1, 1.5, 2, 2.5]
    assert batch["a"]["b/c"].tolist() == [0, 0.5, 1, 1.5]


SHARDING = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"features": ("image/ids",)}, "'image/ids' is not one. Did you mean 'image/id'?"),
        ({"features": (("image", "id"),)}, "('image', 'id') is not one. Did you mean 'image/id'?"),
        ({"features": ("observation",)}, "'observation' is not one. Did you mean 'observation/"),
        ({"keep_on_host": ("image/name",)}, "'image/name' is not one. Did you mean 'image/filen"),
        ({"pad_to": {"objects/box": 3}}, "'objects/box' is not one. Did you mean 'objects/bbox'?"),
        ({"preprocess": "flip_lr('observation/imag')"}, "Did you mean 'observation/image'?"),
        ({**PADDED, "feature_shardings": {"image/idx": SHARDING}}, "Did you mean 'image/id'?"),
        (
            {"filter": tjb.FilterExamples(tf.size, features=("image/file",), name="x")},
            "'image/file' of filter 'x' is not one. Did you mean 'image/filename'?",
        ),
    ],
)
def test_unknown_name_is_an_error_with_the_nearest(
    folder: str, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(tjb.BatchesError) as caught:
        build(folder, SHARDING, **fields)
    assert text in str(caught.value)


def test_build_that_cannot_place_features_names_them_so_that_the_fix_works(folder: str) -> None:
    with pytest.raises(tjb.FeatureError) as caught:
        build(folder)
    message = str(caught.value)
    assert "\n  image/filename: a string\n" in message
    assert "keep_on_host=('image/filename', 'objects/bbox', 'objects/label')" in message
    fix = ("image/filename", "objects/bbox", "objects/label")
    assert list(build(folder, keep_on_host=fix).element_spec) == [
        name for name in ON_DEVICE if name != "objects"
    ]

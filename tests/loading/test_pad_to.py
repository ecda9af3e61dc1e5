# SPDX-License-Identifier: Apache-2.0
"""Features of varying length as dense batches; every kind is in reading/test_decode.py."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfjax_batches as tjb
from tests.made_datasets import thing_example


def build(folder: str, *args: Any, **fields: Any) -> tjb.BatchLoader:
    fields = {"features": ("number", "objects"), "pad_to": {"objects": 3}, **fields}
    return tjb.build(folder, *args, global_batch_size=4, shuffle="none", with_ids=True, **fields)


@pytest.mark.parametrize("group_size", [None, 1, 3])
def test_pad_to_batches_hold_values_zeros_and_lengths(
    things_folder: str, group_size: int | None
) -> None:
    loader = build(things_folder, num_epochs=1, remainder="pad", group_size=group_size)
    ids = []
    for batch in iter(loader):
        specs = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), batch
        )
        assert specs == loader.element_spec
        objects = jax.tree.map(np.asarray, batch["objects"])
        for row, example_id in enumerate(np.asarray(batch["_id"]).tolist()):
            ids.append(example_id)
            things = thing_example(example_id)["objects"] if example_id >= 0 else []
            boxes, labels = np.zeros((3, 4), np.float32), np.zeros(3, np.int32)
            for place, thing in enumerate(things[:3]):
                boxes[place], labels[place] = thing["bbox"], thing["label"]
            np.testing.assert_array_equal(objects["bbox"][row], boxes)
            np.testing.assert_array_equal(objects["label"][row], labels)
            assert objects["bbox_length"][row] == objects["label_length"][row] == len(things)
    assert ids == [*range(11), -1]


def test_pad_to_specs_are_known_and_can_be_sharded(things_folder: str) -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    own = NamedSharding(mesh, PartitionSpec("data", "model"))
    loader = build(
        things_folder,
        NamedSharding(mesh, PartitionSpec("data")),
        feature_shardings={"objects/bbox": own},
        pad_to={"objects/bbox": 2, "objects/label": 5},
    )
    objects = loader.element_spec["objects"]
    assert sorted(objects) == ["bbox", "bbox_length", "label", "label_length"]
    assert (objects["bbox"].shape, objects["bbox"].sharding) == ((4, 2, 4), own)
    assert objects["label"].shape == (4, 5)
    assert (objects["bbox_length"].shape, objects["bbox_length"].dtype) == ((4,), np.int32)
    with iter(loader) as batches:
        assert next(batches)["objects"]["bbox"].sharding == own


def test_pad_to_on_the_host_takes_strings_and_keeps_lengths_beside_them(
    things_folder: str,
) -> None:
    loader = build(
        things_folder,
        features=("number", "words"),
        pad_to={"words": 2},
        keep_on_host=("words",),
    )
    with iter(loader) as batches:
        batch = next(batches)
    assert sorted(batch) == ["_host", "_id", "number"]
    assert batch["_host"]["words"].tolist() == [
        [b"", b""],
        [b"word 0", b""],
        [b"word 0", b"word 1"],
        [b"word 0", b"word 1"],
    ]
    assert batch["_host"]["words_length"].tolist() == [0, 1, 2, 3]


def test_pad_to_is_named_where_it_would_help(things_folder: str) -> None:
    with pytest.raises(tjb.FeatureError, match=r"pad_to=\{'objects/bbox': 16, 'objects/l"):
        build(things_folder, pad_to={})
    with pytest.raises(tjb.FeatureError, match=r"'number' of things/1.0.0 is int64\. Leave it out"):
        build(things_folder, pad_to={"number": 3})


def test_pad_to_restore_with_other_lengths_is_refused(things_folder: str) -> None:
    with iter(build(things_folder)) as batches:
        state = batches.get_state()
    with pytest.raises(tjb.StateError, match=r"pad_to: saved .*3\}, now .*4\}; set pad_to back"):
        build(things_folder, pad_to={"objects": 4}).restore(state)

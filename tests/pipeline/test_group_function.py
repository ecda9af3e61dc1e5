# SPDX-License-Identifier: Apache-2.0
"""What becomes of a group of records: the entries of a batch, and traces that are kept."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

from tfjax_batches.errors import FeatureError
from tfjax_batches.pipeline.group_function import GroupFunction, id_dtype
from tfjax_batches.preprocess.chain import build_chain
from tfjax_batches.reading.decode import Decoder


def make_group(
    features: tfds.features.FeaturesDict, names: tuple[str, ...] | None = None
) -> GroupFunction:
    decoder = Decoder(features, names, "made")
    return GroupFunction(
        decoder=decoder,
        chain=build_chain((), decoder.specs),
        host_paths=frozenset({("y",)} & set(decoder.specs)),
        has_mask=True,
        id_dtype=id_dtype(10),
    )


def test_specs_add_mask_and_ids_and_name_what_stays_on_the_host() -> None:
    group = make_group(tfds.features.FeaturesDict({"x": np.float32, "y": np.int64}))
    assert {path: spec.dtype.name for path, spec in group.device_specs.items()} == {
        ("_id",): "int32",
        ("_mask",): "bool",
        ("x",): "float32",
    }
    assert {path: spec.dtype.name for path, spec in group.host_specs.items()} == {
        ("_host", "y"): "int64"
    }


def test_id_dtype_holds_every_index() -> None:
    assert id_dtype(2**31 - 1) == np.int32
    assert id_dtype(2**31) == np.int64


@pytest.mark.parametrize("name", ["_id", "_mask", "_host"])
def test_names_that_batches_use_are_refused(name: str) -> None:
    features = tfds.features.FeaturesDict({name: np.int64, "x": np.int64})
    with pytest.raises(FeatureError, match=rf"_id, _mask, _host .* {name}\. .*features="):
        make_group(features)
    assert ("x",) in make_group(features, ("x",)).device_specs


@pytest.mark.parametrize("rows", [3, None])
def test_trace_is_kept_zeroes_padding_and_returns_what_the_specs_say(rows: int | None) -> None:
    features = tfds.features.FeaturesDict({"x": np.float32, "y": np.int64})
    group = make_group(features)
    records = [features.serialize_example({"x": i + 1, "y": i + 5}) for i in range(3)]
    function = group.trace(rows)
    assert group.trace(rows) is function
    batch = function(np.array(records, object), np.array([7, -1, 8]), np.zeros((3, 0, 2), np.int32))
    assert {path: value.numpy().tolist() for path, value in batch.items()} == {
        ("x",): [1, 0, 3],
        ("_host", "y"): [5, 0, 7],
        ("_mask",): [True, False, True],
        ("_id",): [7, -1, 8],
    }
    assert {*group.device_specs, *group.host_specs} == set(batch)

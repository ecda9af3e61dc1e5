# SPDX-License-Identifier: Apache-2.0
"""What becomes of a group of records: the entries of a batch, and traces that are kept."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import FeatureError
from tfjax_batches.pipeline.group_function import GroupFunction, id_dtype
from tfjax_batches.pipeline.source_function import SourceFunction
from tfjax_batches.preprocess.chain import build_chain
from tfjax_batches.reading.decode import Decoder


def make_group(
    features: tfds.features.FeaturesDict, names: tuple[str, ...] | None = None
) -> GroupFunction:
    decoder = Decoder(features, names, "made")
    return GroupFunction(
        sources=(SourceFunction(decoder=decoder, chain=build_chain((), decoder.specs)),),
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
    with pytest.raises(FeatureError, match=rf"_source, _id, _mask, _host .* {name}\. .*features="):
        make_group(features)
    assert ("x",) in make_group(features, ("x",)).device_specs


@pytest.mark.parametrize("rows", [3, None])
def test_trace_is_kept_zeroes_padding_and_returns_what_the_specs_say(rows: int | None) -> None:
    features = tfds.features.FeaturesDict({"x": np.float32, "y": np.int64})
    group = make_group(features)
    records = [features.serialize_example({"x": i + 1, "y": i + 5}) for i in range(3)]
    function = group.trace(rows)
    assert group.trace(rows) is function
    examples, sources = np.array([7, -1, 8]), np.zeros(3, np.int32)
    batch = function(examples, sources, np.array(records, object), np.zeros((3, 0, 2), np.int32))
    assert {path: value.numpy().tolist() for path, value in batch.items()} == {
        ("x",): [1, 0, 3],
        ("_host", "y"): [5, 0, 7],
        ("_mask",): [True, False, True],
        ("_id",): [7, -1, 8],
    }
    assert {*group.device_specs, *group.host_specs} == set(batch)


@pytest.mark.parametrize("functions", [[0, 1, 2], [0, 1, 0], [0, 0, 0]])
@pytest.mark.parametrize("rows", [5, None])
@pytest.mark.parametrize("sources", [[1, 0, 0, 1, 1], [2, 2, 0, 2, 2], [0, 0, 0, 0, 0]])
def test_features_of_several_sources_come_in_the_order_of_the_rows(
    sources: list[int], rows: int | None, functions: list[int]
) -> None:
    number = np.int64
    features = tfds.features.FeaturesDict(
        {"x": np.float32, "name": tfds.features.Text(), "many": tfds.features.Sequence(number)}
    )
    decoder = Decoder(features, None, "made")
    chain = build_chain((), decoder.specs)
    made = [SourceFunction(decoder=decoder, chain=chain) for _ in range(3)]
    group = GroupFunction(
        sources=tuple(made[function] for function in functions),
        host_paths=frozenset({("name",), ("many",)}),
        has_mask=False,
        id_dtype=None,
        has_sources=True,
    )
    given: list[np.ndarray] = [np.arange(5), np.array(sources, np.int32)]
    assert group.function_of.tolist() == functions
    for place in range(max(functions) + 1):
        mine = [
            features.serialize_example({"x": row, "name": str(row), "many": [row] * row})
            for row in range(5)
            if functions[sources[row]] == place
        ]
        given += [np.array(mine, object), np.zeros((len(mine), 0, 2), np.int32)]
    function = group.trace(rows)
    specs = function.structured_input_signature[0]
    batch = function(*[tf.constant(v, s.dtype) for v, s in zip(given, specs, strict=True)])
    assert batch[("x",)].numpy().tolist() == [0, 1, 2, 3, 4]
    assert batch[("_host", "name")].numpy().tolist() == [b"0", b"1", b"2", b"3", b"4"]
    assert batch[("_host", "many")].to_list() == [[row] * row for row in range(5)]
    assert batch[("_source",)].numpy().tolist() == sources
    assert function.structured_outputs[("x",)].shape.as_list() == [rows]
    assert {*group.device_specs, *group.host_specs} == set(batch)

# SPDX-License-Identifier: Apache-2.0
"""Values equal those of TFDS, whatever the feature; what no device can hold is refused by name."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tests.reading.feature_kinds import FIXED, STRINGS, VARIABLE
from tfjax_batches.errors import FeatureError
from tfjax_batches.features import rows
from tfjax_batches.features.paths import Path, path_text
from tfjax_batches.features.ragged import length_path
from tfjax_batches.reading.decode import Decoder

KINDS = {**FIXED, **STRINGS, **VARIABLE}


def features_of(*kinds: str) -> tfds.features.FeaturesDict:
    return tfds.features.FeaturesDict({kind: KINDS[kind][0] for kind in kinds})


def serialize(features: tfds.features.FeaturesDict, count: int) -> list[bytes]:
    random = np.random.default_rng(0)
    return [
        features.serialize_example({kind: KINDS[kind][1](random, n) for kind in features})
        for n in range(count)
    ]


def flat_value(value: Any, path: Path = ()) -> dict[Path, Any]:
    """Return what TFDS decoded as features by path, a nested dataset as stacked elements."""
    if isinstance(value, tf.data.Dataset):
        elements = [flat_value(element, path) for element in value]
        specs = flat_value(value.element_spec, path)
        return {
            below: np.stack([each[below] for each in elements])
            if elements
            else np.empty((0, *spec.shape), spec.dtype.as_numpy_dtype)
            for below, spec in specs.items()
        }
    if isinstance(value, dict):
        return {
            below: each
            for name, part in value.items()
            for below, each in flat_value(part, (*path, name)).items()
        }
    return {path: value}


def check_equal(found: Any, expected: Any, path: Path) -> None:
    """Compare one example's value: dense, or ragged on either side."""
    lists: list[Any] = [
        value.to_list() if isinstance(value, tf.RaggedTensor) else np.asarray(value).tolist()
        for value in (found, expected)
    ]
    assert lists[0] == lists[1] or np.array_equal(lists[0], lists[1], equal_nan=True), path


@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("kind", KINDS)
def test_decode_every_kind_equals_tfds_example_by_example(kind: str, static: bool) -> None:
    features = features_of(kind)
    records = serialize(features, 7)
    decoder = Decoder(features, None, "made")
    signature = tf.TensorSpec([7 if static else None], tf.string)
    found = tf.function(decoder.decode, input_signature=[signature])(tf.constant(records))
    assert sorted(found) == list(decoder.specs)
    # As tfds.load does it.
    examples = tf.data.Dataset.from_tensor_slices(records).map(features.deserialize_example)
    for number, example in enumerate(examples):
        expected = flat_value(example)
        assert sorted(found) == sorted(expected)
        for path, value in expected.items():
            spec = decoder.specs[path]
            check_equal(found[path][number], value, path)
            assert found[path].dtype == value.dtype, path
            assert spec.is_string == (value.dtype == tf.string), path
            assert spec.is_string or tf.as_dtype(spec.dtype) == value.dtype, path
            assert tf.TensorShape(spec.shape).is_compatible_with(value.shape), path
            assert isinstance(found[path], tf.RaggedTensor) == (not spec.is_fixed), path
            if static:
                assert found[path].shape[1:].is_compatible_with(spec.shape), path


def test_decode_kinds_are_where_they_belong() -> None:
    for kinds, fixed, strings in ((FIXED, True, False), (STRINGS, True, True)):
        for path, spec in Decoder(features_of(*kinds), None, "made").specs.items():
            assert (spec.is_fixed, spec.is_string) == (fixed, strings), path
    for path, spec in Decoder(features_of(*VARIABLE), None, "made").specs.items():
        assert not spec.is_fixed, path


def test_decode_all_kinds_of_tfds_are_in_the_table() -> None:
    """A kind that a new TFDS brings is noticed here."""
    bases = {"FeatureConnector", "TopLevelFeature", "FeaturesDict", "Optional"}
    kinds = {
        name
        for name in dir(tfds.features)
        if isinstance(getattr(tfds.features, name), type)
        and issubclass(getattr(tfds.features, name), tfds.features.FeatureConnector)
    }
    used = {type(part).__name__ for kind in KINDS for part in parts(features_of(kind)[kind])}
    assert kinds - bases - used == set()


def parts(feature: Any) -> list[Any]:
    inner = []
    if isinstance(feature, tfds.features.FeaturesDict):
        inner = [part for each in feature.values() for part in parts(each)]
    elif isinstance(feature, tfds.features.Sequence):
        inner = parts(feature.feature)
    return [feature, *inner]


def test_decode_large_groups_loop_and_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    features = features_of("png_3", "tensor_zlib")
    records = tf.constant(serialize(features, 9))
    decoder = Decoder(features, None, "made")
    unrolled = tf.function(decoder.decode).get_concrete_function(records)
    monkeypatch.setattr(rows, "UNROLLED_ROWS", 4)  # two turns of the loop, and one row
    looped = tf.function(decoder.decode).get_concrete_function(records)
    kinds = [{op.type for op in graph.graph.get_operations()} for graph in (unrolled, looped)]
    assert [bool({"While", "StatelessWhile"} & kind) for kind in kinds] == [False, True]
    for path, value in unrolled(records).items():
        np.testing.assert_array_equal(value, looped(records)[path], err_msg=path_text(path))


def test_decode_encoded_features_stay_bytes() -> None:
    features = features_of("any_image", "label")
    records = serialize(features, 3)
    decoder = Decoder(features, None, "made", encoded=("any_image",))
    found = decoder.decode(tf.constant(records))
    for record, stored in zip(records, found[("any_image",)].numpy(), strict=True):
        example = tf.train.Example.FromString(record)
        assert stored == example.features.feature["any_image"].bytes_list.value[0]
    assert decoder.specs[("any_image",)].is_string
    assert decoder.specs[("any_image",)].shape == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("png1", "encoded must name parsed features of made; 'png1' is not one. Did you mean"),
        ("objects/box", "'objects/box' is float32, stored as"),
        ("label", "'label' is int64, stored as"),
        ("png_16_bits", "images must be uint8"),
        ("png_16_bits", "'png_16_bits' is uint16, stored as"),
        ("png_float", "replace the op"),
        ("png1", "before any that renames it, and name a feature of features=(…)"),
        ("images", "Leave it out of encoded"),
    ],
)
def test_decode_encoded_other_than_one_string_is_refused(name: str, text: str) -> None:
    features = features_of("png_1", "png_16_bits", "png_float", "label", "objects", "images")
    with pytest.raises(FeatureError) as caught:
        Decoder(features, None, "made", encoded=(name,))
    assert text in str(caught.value)


def test_decode_parses_only_what_is_asked_for() -> None:
    """Records that lack the other features, or hold nonsense there, still decode."""
    features = features_of("label", "nested", "png_1", "objects", "tensor_zlib")
    decoder = Decoder(features, ("label", "nested/a", "objects/label"), "made")
    assert list(decoder.specs) == [("label",), ("nested", "a", "b"), ("objects", "label")]
    example = tf.train.Example.FromString(serialize(features, 4)[3])
    feature = example.features.feature
    del feature["png_1"], feature["nested/c"], feature["objects/box"]
    feature["tensor_zlib"].bytes_list.value[0] = b"nonsense"
    found = decoder.decode(tf.constant([example.SerializeToString()]))
    assert found[("nested", "a", "b")].numpy().tolist() == [3.0]
    assert found[("objects", "label")].to_list() == [[0, 1, 2]]


def test_keys_are_equal_where_the_same_is_made_of_the_features_that_are_parsed() -> None:
    f = tfds.features
    image, words = f.Image(shape=(2, 2, 1)), f.Sequence(f.Text())
    made = f.FeaturesDict({"image": image, "words": words, "id": np.int64})
    other = f.FeaturesDict({"words": words, "image": image, "name": f.Text()})
    stored = f.FeaturesDict({"image": f.Tensor(shape=(2, 2, 1), dtype=np.uint8), "words": words})
    names = ("image", "words")
    key = Decoder(made, names, "made").key
    assert Decoder(other, names[::-1], "other").key == key
    different = [
        Decoder(made, None, "made"),
        Decoder(stored, names, "made"),
        Decoder(made, names, "made", encoded=("image",)),
        Decoder(made, names, "made", pad_to={"words": 3}),
        Decoder(made, names, "made", pad_to={"words": 4}),
    ]
    assert len({key, *(decoder.key for decoder in different)}) == 6


def test_decode_unknown_feature_suggests_the_nearest() -> None:
    with pytest.raises(
        FeatureError, match=r"features of made; 'lable' is not one. Did you mean 'label'\?"
    ):
        Decoder(features_of("label"), ("lable",), "made")


PADDABLE = ["any_audio", "any_tensor", "numbers", "flags", "texts", "labels", "tensors"]
PADDABLE += ["zlib_tensors", "images", "any_video", "objects", "dataset"]


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("kind", PADDABLE)
def test_decode_pad_to_cuts_and_fills_every_kind(kind: str, length: int) -> None:
    features = features_of(kind)
    records = serialize(features, 7)
    decoder = Decoder(features, None, "made", pad_to={kind: length})
    padded, plain = (
        tf.function(each.decode).get_concrete_function(tf.TensorSpec([7], tf.string))
        for each in (decoder, Decoder(features, None, "made"))
    )
    found, ragged = padded(tf.constant(records)), plain(tf.constant(records))
    assert sorted(found) == list(decoder.specs) == sorted([*ragged, *map(length_path, ragged)])
    for path, values in ragged.items():
        assert decoder.specs[path].is_fixed
        assert padded.structured_outputs[path].shape == (7, *decoder.specs[path].shape)
        assert found[path].dtype == values.dtype
        assert found[length_path(path)].dtype == tf.int32
        for row, value in enumerate(values):
            value = np.asarray(value)
            expected = np.zeros((length, *value.shape[1:]), value.dtype)
            expected[: len(value)] = value[:length]
            if value.dtype == object:
                expected[expected == 0] = b""
            np.testing.assert_array_equal(found[path][row], expected)
            assert found[length_path(path)][row] == len(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("label", "'label' of made is int64. Leave it out of pad_to."),
        ("tensor", "'tensor' of made is int8 of shape (2, 3)."),
        ("any_image", "'any_image' of made is uint8 of shape (None, None, 3)."),
        (
            "any_last",
            "'any_last' of made is int64 of shape (2, None). Leave it out of pad_to; keep_",
        ),
        ("ragged", "keep_on_host=('ragged',) takes any shape"),
    ],
)
def test_decode_pad_to_what_it_cannot_make_dense_is_named(kind: str, text: str) -> None:
    with pytest.raises(FeatureError) as caught:
        Decoder(features_of(kind), None, "made", pad_to={kind: 3})
    assert "pad_to needs a feature in which only the first dim varies" in str(caught.value)
    assert text in str(caught.value)


def test_decode_pad_to_a_feature_named_twice_is_refused() -> None:
    pad_to = {"objects/box": 2, ("objects", "box"): 3}
    with pytest.raises(FeatureError, match=r"each feature once; 'objects/box' is named again"):
        Decoder(features_of("objects"), None, "made", pad_to=pad_to)


def test_decode_pad_to_bad_names_are_refused() -> None:
    features = tfds.features.FeaturesDict(
        {"x": tfds.features.Sequence(np.int64), "x_length": np.int64, "y": np.int64}
    )
    for pad_to, text in [
        (
            {"xx": 3},
            "pad_to must name parsed features of made; 'xx' is not one. Did you mean 'x'?",
        ),
        ({"x": 3}, "adds the lengths of 'x' as 'x_length', but made has a feature of that name."),
    ]:
        with pytest.raises(FeatureError) as caught:
            Decoder(features, None, "made", pad_to=pad_to)
        assert text in str(caught.value)

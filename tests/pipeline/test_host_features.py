# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from tests.reading.test_decode import features_of
from tfjax_batches.errors import FeatureError
from tfjax_batches.features.feature_spec import FeatureSpec
from tfjax_batches.features.paths import Path
from tfjax_batches.features.ragged import length_path
from tfjax_batches.pipeline.host_features import check_device_features, choose_host_paths
from tfjax_batches.reading.decode import Decoder

BOX = ("objects", "box")


def test_check_device_features_names_all_at_once() -> None:
    features = features_of("text", "any_image", "numbers", "ragged", "objects", "label")
    specs = Decoder(features, None, "made").specs
    with pytest.raises(FeatureError) as caught:
        check_device_features(specs, (), "made/1.0.0", specs)
    message = str(caught.value)
    assert "fixed shape" in message
    assert "made/1.0.0" in message
    assert "  text: a string" in message
    assert "  any_image: uint8 of shape (None, None, 3)" in message
    assert "  ragged: int64 of shape (None, None)" in message
    assert "  objects/box: float32 of shape (None, 4)" in message
    assert "leave them out: features=('label',)" in message
    assert "keep_on_host=('any_image', 'numbers', 'objects/box', 'objects/label'," in message
    check_device_features({("label",): specs[("label",)]}, (), "made", specs)
    check_device_features(specs, set(specs) - {("label",)}, "made", specs)


def test_check_device_features_tells_what_made_them_so_and_what_can_be_parsed() -> None:
    specs = Decoder(features_of("text", "label"), None, "made").specs
    with pytest.raises(FeatureError) as caught:
        check_device_features(
            specs,
            (),
            "made",
            parsed=(("label",), ("words",)),
            origin_of=lambda path: ", made by 1. f",
        )
    assert "  text: a string, made by 1. f\n" in str(caught.value)
    assert "features=" not in str(caught.value)


def test_check_device_features_advises_a_shape_for_what_no_op_can_shape() -> None:
    specs: dict[Path, FeatureSpec] = {
        ("image",): FeatureSpec(shape=(8, 8, None), dtype=np.dtype(np.float32))
    }
    with pytest.raises(
        FeatureError, match=r"set their shape in the transform, as in tf\.ensure_sh"
    ):
        check_device_features(specs, (), "made", (("image",),), lambda path: ", made by 1. f")


def test_choose_host_paths_take_lengths_along_where_they_are() -> None:
    specs = Decoder(features_of("objects", "label"), None, "made", pad_to={"objects": 2}).specs
    padded = (BOX, ("objects", "label"))
    assert choose_host_paths(specs, ["objects/box"], padded, "made") == {
        BOX,
        length_path(BOX),
    }
    dropped = {path: spec for path, spec in specs.items() if path != length_path(BOX)}
    assert choose_host_paths(dropped, ["objects/box"], padded, "made") == {BOX}
    with pytest.raises(FeatureError, match=r"'boxes' is not one\. .* 'objects/box"):
        choose_host_paths(specs, ["boxes"], padded, "made")


def test_check_device_features_advises_features_that_can_be_named() -> None:
    decoder = Decoder(features_of("objects", "text"), None, "made", pad_to={"objects": 2})
    assert decoder.parsed == (BOX, ("objects", "label"), ("text",))
    with pytest.raises(FeatureError, match=r"leave them out: features=\('objects/box', 'objects/l"):
        check_device_features(decoder.specs, (), "made", decoder.parsed)
    alone = Decoder(features_of("text"), None, "made")
    with pytest.raises(FeatureError) as caught:
        check_device_features(alone.specs, (), "made", alone.parsed)
    assert "leave them on the host: keep_on_host=('text',)" in str(caught.value)
    assert "features=()" not in str(caught.value)

# SPDX-License-Identifier: Apache-2.0
"""Datasets of TFDS that together have each kind of feature are read as TFDS reads them.

`python scripts/catalogue.py` reads them all.
"""

from pathlib import Path
from typing import Any

import catalogue
import catalogue_examples
import numpy as np
import pytest
import tensorflow_datasets as tfds
from catalogue import Outcome
from catalogue_examples import OnDevice, find_advice, find_differences

import tfjax_batches as tjb
from tests.reading.feature_kinds import FIXED, STRINGS, VARIABLE
from tfjax_batches.reading.feature_decoder import FeatureDecoder

f = tfds.features

BUILDERS = (
    "bair_robot_pushing_small",
    "c4",
    "cats_vs_dogs",
    "celeb_a",
    "cityscapes",
    "coco",
    "common_voice",
    "coqa",
    "d4rl_mujoco_halfcheetah",
    "davis",
    "diamonds",
    "dsprites",
    "duke_ultrasound",
    "glue",
    "groove",
    "imagenet2012",
    "imdb_reviews",
    "istella",
    "kitti",
    "lvis",
    "mnist",
    "moving_mnist",
    "nsynth",
    "nyu_depth_v2",
    "ogbg_molpcba",
    "open_images_v4",
    "plant_leaves",
    "rlu_atari",
    "scan",
    "schema_guided_dialogue",
    "smallnorb",
    "speech_commands",
    "squad",
    "stanford_dogs",
    "ted_multi_translate",
    "titanic",
    "ucf101",
    "voc",
    "wider_face",
    "wmt14_translate",
)


BOTH = {"pad_to": {"x": 16}, "keep_on_host": ("y",)}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in catalogue.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("name", BUILDERS)
def test_catalogue_builder_is_read_equal(name: str) -> None:
    result = catalogue.check_config(catalogue.list_configs(name)[0])
    assert result.outcome is Outcome.EQUAL, result


def test_catalogue_all_kinds_of_features_are_read_equal(tmp_path: Path) -> None:
    kinds = {**FIXED, **STRINGS, **VARIABLE}
    features = tfds.features.FeaturesDict({name: feature for name, (feature, _) in kinds.items()})
    assert catalogue.check_features(features, str(tmp_path)) == (Outcome.EQUAL, "")


def test_catalogue_wrong_values_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = FeatureDecoder.decode
    monkeypatch.setattr(FeatureDecoder, "decode", lambda self, parsed: decode(self, parsed) + 1)
    result = catalogue.check_config("mnist")
    assert result.outcome is Outcome.FAILED
    assert "/label: other values of int32[]" in result.reason


@pytest.mark.parametrize(
    ("feature", "outcome", "reason"),
    [
        # TFDS does not write several unknown sizes without an encoding,
        (f.Tensor(shape=(None, None), dtype=np.int32), Outcome.TFDS_FAILS, "to write: ValueError"),
        # and writes this without being able to read it; the loader refuses or reads it.
        (
            f.Sequence(f.Tensor(shape=(None,), dtype=np.int32)),
            Outcome.TFDS_FAILS,
            "to read: NotImplementedError",
        ),
        (f.Sequence(f.Sequence(np.int32, length=2)), Outcome.TFDS_FAILS, "to read: TypeError"),
    ],
)
def test_catalogue_what_tfds_cannot_do_is_no_failure(
    feature: Any, outcome: Outcome, reason: str, tmp_path: Path
) -> None:
    features = f.FeaturesDict({"x": feature, "y": np.int32})
    found = catalogue.check_features(features, str(tmp_path))
    assert found[0] is outcome
    assert found[1].startswith(reason)


def test_catalogue_refused_features_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise tjb.FeatureError("no advice")

    monkeypatch.setattr(catalogue_examples, "read_with_loader", refuse)
    found = catalogue.check_features(f.FeaturesDict({"x": np.int32}), str(tmp_path))
    assert found == (Outcome.REFUSED, "FeatureError: no advice")


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        ({"a": np.int64(1)}, {"a": np.int64(2)}, "/a: other values"),
        ({"a": np.int32(1)}, {"a": np.int64(1)}, "/a: int32[], not int64[]"),
        ({"a": np.zeros(2)}, {"a": np.zeros(3)}, "/a: float64[2], not float64[3]"),
        ({"a": b"x\0"}, {"a": b"x"}, "/a: other values"),
        ({"a": {"b": 1}}, {"a/b": 1}, "only one of both has ['a', 'a/b']"),
        ({"a": {}}, {"a": {"b": 1}}, "/a: only one of both has ['b']"),
        ({"a": [np.int64(1)]}, {"a": [np.int64(1), np.int64(2)]}, "/a: 1 elements, not 2"),
        ({"a": [np.int64(1)]}, {"a": [np.int64(2)]}, "/a[]: other values"),
        # Padding that is not zero is none.
        (
            {"a": np.array([1, 2, 3]), "a_length": np.int32(2)},
            {"a": np.array([1, 2])},
            "/a: int64[3], not int64[2]",
        ),
    ],
)
def test_catalogue_differences_are_named(found: Any, expected: Any, difference: str) -> None:
    (text,) = find_differences(found, expected)
    assert difference in text
    assert find_differences(expected, expected) == []


def test_catalogue_padding_and_narrow_values_on_devices_are_no_differences() -> None:
    found = {"a": np.array([1, 2, 0]), "a_length": np.int32(2)}
    assert find_differences(found, {"a": np.array([1, 2])}) == []
    narrow = np.array([1, 2], np.int32).view(OnDevice)
    assert find_differences({"a": narrow}, {"a": np.array([1, 2])}) == []


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Leave it: keep_on_host=('y',); or pad_to={'x': 16}.", BOTH),
        ("keep_on_host=('a (m²)', ('b', 'c)')).", {"keep_on_host": ("a (m²)", ("b", "c)"))}),
        ("Turn it off.", {}),
    ],
)
def test_catalogue_advice_is_found_in_messages(message: str, advice: dict[str, Any]) -> None:
    assert find_advice(message) == advice

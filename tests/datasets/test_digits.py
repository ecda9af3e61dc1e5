# SPDX-License-Identifier: Apache-2.0
import collections
import pathlib
import socket
import sys
from typing import NoReturn

import numpy as np
import pytest
import sklearn.datasets
import tensorflow_datasets as tfds

import tfjax_batches.datasets.digits as digits
from tfjax_batches.errors import MissingPackageError


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the dataset, prepared while no connection could be made."""

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("preparing `digits` must not use the network")

    folder = tmp_path_factory.mktemp("digits")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        tfds.builder("digits", data_dir=folder).download_and_prepare()
    return folder


def load(data_dir: pathlib.Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """All examples of a split: images, labels."""
    dataset = tfds.builder("digits", data_dir=data_dir).as_dataset(split=split)
    examples = list(dataset.as_numpy_iterator())
    return np.stack([e["image"] for e in examples]), np.array([e["label"] for e in examples])


def test_info_names_version_splits_and_classes(data_dir: pathlib.Path) -> None:
    info = tfds.builder("digits", data_dir=data_dir).info
    assert str(info.version) == "1.0.0"
    assert {name: split.num_examples for name, split in info.splits.items()} == {
        "train": 1437,
        "test": 360,
    }
    assert info.features["label"].names == [str(digit) for digit in range(10)]
    assert info.features["image"].shape == (8, 8, 1)
    assert info.features["image"].dtype == np.uint8
    assert "load_digits" in info.description
    assert "Alpaydin" in info.citation


def test_splits_together_hold_each_image_of_sklearn_once(data_dir: pathlib.Path) -> None:
    source = sklearn.datasets.load_digits()
    expected = collections.Counter(
        (image.astype(np.uint8).tobytes(), int(label))
        for image, label in zip(source.images, source.target, strict=True)
    )
    found: collections.Counter[tuple[bytes, int]] = collections.Counter()
    for split in ("train", "test"):
        images, labels = load(data_dir, split)
        assert not (images % digits.INTENSITY_SCALE).any()
        found.update(
            (image.tobytes(), int(label))
            for image, label in zip(images // digits.INTENSITY_SCALE, labels, strict=True)
        )
    assert found == expected


def test_test_split_has_every_digit_in_proportion(data_dir: pathlib.Path) -> None:
    _, labels = load(data_dir, "test")
    counts = np.bincount(sklearn.datasets.load_digits().target)
    np.testing.assert_allclose(np.bincount(labels), counts / 5, atol=1)


def test_prepared_again_gives_the_same_bytes(
    data_dir: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    tfds.builder("digits", data_dir=tmp_path).download_and_prepare()

    def records(folder: pathlib.Path) -> dict[str, bytes]:
        paths = (folder / "digits" / "1.0.0").glob("*.tfrecord*")
        return {path.name: path.read_bytes() for path in paths}

    assert len(records(data_dir)) == 2
    assert records(tmp_path) == records(data_dir)


def test_prepare_without_sklearn_names_the_extra(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    builder = tfds.builder("digits", data_dir=tmp_path)
    with pytest.raises(MissingPackageError) as raised:
        builder.download_and_prepare()
    message = str(raised.value)
    assert "dataset 'digits' needs scikit-learn" in message
    assert "sklearn.datasets" in message
    assert "pip install 'tfjax_batches[demo]'" in message
    assert not list(tmp_path.glob("digits/1.0.0"))


def test_read_without_sklearn_works(
    data_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    images, _ = load(data_dir, "test")
    assert images.shape == (360, 8, 8, 1)

# SPDX-License-Identifier: Apache-2.0
"""Cache files are read as they were written, here and on remote file systems, or not at all."""

import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfjax_batches.reading.cache_file import load_cached, save_cached

INTEGERS = np.array([0, 1, 2, -(2**62), 2**62])
HEADER = {"format": "made 1", "files": [["naïve", 3, 2**60]]}


@pytest.fixture(params=["local", "remote"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The path of a cache file that is not there yet."""
    if request.param == "local":
        return str(tmp_path / "folder" / ".made.index")
    folder = f"ram://{uuid.uuid4().hex}"
    tf.io.gfile.makedirs(folder)
    return f"{folder}/.made.index"


def names_beside(path: str) -> list[str]:
    names: list[str] = tf.io.gfile.listdir(path.rsplit("/", 1)[0])
    return names


@pytest.mark.parametrize("saved", [INTEGERS, INTEGERS[:0]], ids=["some", "none"])
def test_load_cached_gives_what_was_saved(path: str, saved: np.ndarray) -> None:
    assert load_cached(path, "made 1") is None
    assert save_cached(["/proc/no/such", path], "made", HEADER, saved) == path
    loaded = load_cached(path, "made 1")
    assert loaded is not None
    header, integers = loaded
    assert header == HEADER
    assert integers.tolist() == saved.tolist()
    assert integers.dtype == np.int64
    assert load_cached(path, "made 2") is None
    assert names_beside(path) == [".made.index"]


def test_save_cached_replaces_the_whole_file_or_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_cached([path], "made", HEADER, INTEGERS)

    def fail(header: Any) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", fail)
        with pytest.raises(KeyboardInterrupt):
            save_cached([path], "made", {"format": "made 2"}, INTEGERS[:0])
    assert names_beside(path) == [".made.index"]
    assert load_cached(path, "made 1") is not None
    save_cached([path], "made", {"format": "made 2"}, INTEGERS[:0])
    assert load_cached(path, "made 2") is not None


def test_load_cached_is_mapped_and_read_by_numpy_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "made")
    save_cached([path], "made", HEADER, INTEGERS)
    loaded = load_cached(path, "made 1")
    assert loaded is not None
    assert not loaded[1].flags.owndata
    assert not loaded[1].flags.writeable
    assert np.load(path).tolist() == loaded[1].tolist()

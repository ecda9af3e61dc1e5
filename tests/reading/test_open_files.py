# SPDX-License-Identifier: Apache-2.0
"""No more files open than the limit, whichever are used and by however many threads."""

import resource
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tfjax_batches.reading.open_files import OpenFiles


class File:
    def __init__(self, number: int) -> None:
        self.number = number


@pytest.fixture
def three_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is three files."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (12, 12))


@pytest.mark.usefixtures("three_files")
def test_getitem_keeps_as_many_as_the_limit_from_many_threads() -> None:
    alive: set[int] = set()
    lock = threading.Lock()
    most = 0

    def open_file(number: int) -> File:
        nonlocal most
        file = File(number)
        with lock:
            alive.add(id(file))
            most = max(most, len(alive))
        weakref.finalize(file, alive.discard, id(file))
        return file

    files = OpenFiles(open_file)

    def use(number: int) -> bool:
        return files[number].number == number

    with ThreadPoolExecutor(4) as pool:
        numbers = np.random.default_rng(0).integers(0, 10, 2000).tolist()
        assert all(pool.map(use, numbers))
    # Each thread may still use a file that was let go, and one file is open before one is.
    assert most <= 3 + 4 + 1


@pytest.mark.usefixtures("three_files")
def test_getitem_opens_once_what_fits() -> None:
    opened: list[int] = []

    def open_file(number: int) -> File:
        opened.append(number)
        return File(number)

    files = OpenFiles(open_file)
    for number in (0, 1, 2, 0, 1, 2, 2):
        assert files[number].number == number
    assert opened == [0, 1, 2]


@pytest.mark.parametrize(("soft", "limit"), [(1024, 256), (-1, 2**14), (2**20, 2**14)])
def test_limit_follows_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, soft: int, limit: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, soft))
    assert OpenFiles(File)._limit == limit

# SPDX-License-Identifier: Apache-2.0
"""The store with latency of `scripts/far_store.py`, without a mount."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import far_store


def test_requests_wait_together_and_share_the_bandwidth() -> None:
    link = far_store.Link(latency=0.05, bandwidth=1e6)
    start = time.monotonic()
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(link.wait, [10_000] * 10))
    seconds = time.monotonic() - start
    assert 0.15 <= seconds < 0.4  # 0.05 s, then 100 KB; one after the other: 0.6 s
    assert (link.requests, link.bytes) == (10, 100_000)


def test_pieces_of_one_read_are_one_request(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(100)))
    link = far_store.Link(latency=0.0, bandwidth=1e9)
    folder = far_store.FarFolder(str(tmp_path), link)
    file = folder.open("/file", os.O_RDONLY)
    assert folder.read("/file", 40, 0, file) + folder.read("/file", 40, 40, file) == bytes(
        range(80)
    )
    assert folder.read("/file", 10, 0, file) == bytes(range(10))
    folder.release("/file", file)
    assert (link.requests, link.bytes) == (2, 90)
    assert folder.getxattr("/", "user.requests") == b"2"

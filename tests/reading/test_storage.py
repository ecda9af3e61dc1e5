# SPDX-License-Identifier: Apache-2.0
"""Tests of `tfjax_batches/reading/storage.py`."""

import io
import os
from pathlib import Path

import pytest

from tfjax_batches.reading import storage


@pytest.mark.parametrize(
    ("kind", "is_far"),
    [
        ("fuse", True),  # of a FUSE mount without a name
        ("fuse.gcsfuse", True),
        ("nfs4", True),
        ("fuse.fuse-overlayfs", False),
        ("fuseblk", False),  # a disk of this machine
        ("ext4", False),
    ],
)
def test_network_mount_is_told_by_type(
    kind: str, is_far: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = os.stat(tmp_path).st_dev
    row = f"36 35 {os.major(device)}:{os.minor(device)} / /mnt rw master:1 - {kind} name rw\n"
    monkeypatch.setattr(storage, "open", lambda *_, **__: io.StringIO(row), raising=False)
    assert storage.is_network_mount(str(tmp_path)) == is_far

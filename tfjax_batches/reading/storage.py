# SPDX-License-Identifier: Apache-2.0
"""Files of this machine and of TensorFlow's file systems (`gs://`), behind the same few functions.

Every function raises one of `FILE_ERRORS` where a file cannot be used.
"""

import contextlib
import os
import uuid
from collections.abc import Callable
from typing import Any

import tensorflow as tf

FILE_ERRORS = (OSError, tf.errors.OpError)

_LASTING_ERRORS = (
    FileNotFoundError,
    PermissionError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnauthenticatedError,
    tf.errors.UnimplementedError,
)

# Linux's names of file systems whose files are elsewhere; those of FUSE are "fuse" or "fuse.name".
_NETWORK_TYPES = ("afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "smb3")
_LOCAL_FUSE_TYPES = ("fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.portal")


def is_remote(path: str) -> bool:
    """Return whether a path is on one of TensorFlow's file systems, which have no memory maps."""
    return "://" in path


def is_network_mount(path: str) -> bool:
    """Return whether a path of this machine is on a mount of a network file system or of FUSE.

    There a page fault takes as long as a request, and fetches little.
    """
    number = os.stat(path).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            rows = [line.split() for line in mounts]
    except OSError:
        return False  # not Linux
    types = [row[row.index("-") + 1] for row in rows if row[2] == device]
    return any(
        kind in _NETWORK_TYPES or (kind.split(".")[0] == "fuse" and kind not in _LOCAL_FUSE_TYPES)
        for kind in types
    )


def is_lasting(error: Exception) -> bool:
    """Return whether an error of `FILE_ERRORS` would come again in another try."""
    return isinstance(error, _LASTING_ERRORS)


def local_path(path: str) -> str:
    """Return a path with `~` expanded and without `file://`."""
    return os.path.expanduser(path.removeprefix("file://"))


def file_stat(path: str) -> tuple[int, int]:
    """Return size in bytes and modification time in nanoseconds; 0: the file system has none."""
    if is_remote(path):
        remote = tf.io.gfile.stat(path)
        return int(remote.length), int(remote.mtime_nsec)
    local = os.stat(path)
    return local.st_size, local.st_mtime_ns


def open_file(path: str) -> Any:
    """Open a file for reads at any offset."""
    return tf.io.gfile.GFile(path, "rb") if is_remote(path) else open(path, "rb", buffering=0)


def find_files(pattern: str) -> list[str]:
    """Return the files of a pattern with `*`; none where their folder cannot be read."""
    try:
        return sorted(tf.io.gfile.glob(pattern))
    except tf.errors.OpError:
        return []


def remove_file(path: str) -> None:
    """Delete a file that may be gone already, or that cannot be deleted."""
    with contextlib.suppress(tf.errors.OpError):
        tf.io.gfile.remove(path)


def replace_file(path: str, write: Callable[[Any], object]) -> None:
    """Write a whole file: a reader sees all of the old content or all of the new.

    Args:
        path: The file.
        write: Writes the content to an open file, which has `write(bytes)`.
    """
    temporary = f"{path}.{uuid.uuid4().hex}"  # unique among the processes of all machines
    tf.io.gfile.makedirs(os.path.dirname(path))
    try:
        with tf.io.gfile.GFile(temporary, "wb") as file:
            write(file)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        remove_file(temporary)
        raise

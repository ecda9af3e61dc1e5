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


def is_remote(path: str) -> bool:
    """Return whether a path is on one of TensorFlow's file systems, which have no memory maps."""
    return "://" in path


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
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.remove(temporary)
        raise

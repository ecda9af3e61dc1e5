# SPDX-License-Identifier: Apache-2.0
"""Files of this machine and of TensorFlow's file systems (`gs://`), behind the same few functions.

Every function raises OSError where a file cannot be used.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

ReadAt = Callable[[int, int], bytes]
"""Takes an offset and a size; returns that many bytes of one file, fewer at its end."""


def is_remote(path: str) -> bool:
    """Return whether a path is on one of TensorFlow's file systems, which have no memory maps."""
    return "://" in path


def file_stat(path: str) -> tuple[int, int]:
    """Return size in bytes and modification time in nanoseconds, 0 where the file system has none.

    Raises:
        OSError: The file cannot be found.
    """
    if not is_remote(path):
        found = os.stat(path)
        return found.st_size, found.st_mtime_ns
    with _os_errors(path):
        remote = tf.io.gfile.stat(path)
        return int(remote.length), int(remote.mtime_nsec)


@contextmanager
def open_for_reads(path: str) -> Iterator[ReadAt]:
    """Open a file for reads at any offset.

    Raises:
        OSError: The file cannot be read.
    """
    if not is_remote(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            yield lambda offset, size: os.pread(descriptor, size, offset)
        finally:
            os.close(descriptor)
        return
    with tf.io.gfile.GFile(path, "rb") as file:

        def read_at(offset: int, size: int) -> bytes:
            with _os_errors(path):
                file.seek(offset)
                data: bytes = file.read(size)
                return data

        yield read_at


def replace_file(path: str, write: Callable[[Any], object]) -> None:
    """Write a whole file: a reader sees all of the old content or all of the new.

    Args:
        path: The file.
        write: Writes the content to an open file, which has `write(bytes)`.

    Raises:
        OSError: The file cannot be written.
    """
    temporary = f"{path}.{uuid.uuid4().hex}"  # unique among the processes of all machines
    with _os_errors(path):
        if not is_remote(path):  # object stores need no folders
            os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with tf.io.gfile.GFile(temporary, "wb") as file:
                write(file)
            tf.io.gfile.rename(temporary, path, overwrite=True)
        except BaseException:
            with contextlib.suppress(tf.errors.OpError):
                tf.io.gfile.remove(temporary)
            raise


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Turn TensorFlow's errors into OSError."""
    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(f"{path}: {error.message or type(error).__name__}") from error

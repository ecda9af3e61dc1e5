# SPDX-License-Identifier: Apache-2.0
"""The few things that an index asks of a file system: this machine's, or TensorFlow's."""

import contextlib
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

ReadAt = Callable[[int, int], bytes]
"""Returns the bytes of one file from an offset on: as many as asked for, or up to its end."""


class Storage(Protocol):
    """A file system. All methods raise OSError for what cannot be done."""

    def stat(self, path: str) -> tuple[int, int]:
        """Return size in bytes and time of change in nanoseconds."""

    def reading(self, path: str) -> contextlib.AbstractContextManager[ReadAt]:
        """Open a file for reads at any offset."""

    def load(self, path: str) -> npt.NDArray[np.uint8]:
        """Return the content of a whole file, uint8[size], read-only."""

    def replace(self, path: str, parts: list[bytes]) -> None:
        """Write a file in one go: a reader sees the old one, or all of the new one."""


def storage_of(path: str) -> Storage:
    """Return the storage that holds `path`: TensorFlow's for `gs://` and its like."""
    return RemoteStorage() if is_remote(path) else LocalStorage()


def is_remote(path: str) -> bool:
    """Return whether a path names a file system of TensorFlow, which has no memory maps."""
    return "://" in path


class LocalStorage:
    """Files of this machine."""

    def stat(self, path: str) -> tuple[int, int]:
        """See `Storage`."""
        found = os.stat(path)
        return found.st_size, found.st_mtime_ns

    @contextmanager
    def reading(self, path: str) -> Iterator[ReadAt]:
        """See `Storage`."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            yield lambda offset, size: os.pread(descriptor, size, offset)
        finally:
            os.close(descriptor)

    def load(self, path: str) -> npt.NDArray[np.uint8]:
        """See `Storage`; a memory map, of which only what is used is read."""
        try:
            return np.memmap(path, np.uint8, mode="r")
        except ValueError as error:  # an empty file cannot be mapped
            raise OSError(f"{path}: {error}") from error

    def replace(self, path: str, parts: list[bytes]) -> None:
        """See `Storage`."""
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".index-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                # mkstemp makes files for one user's eyes; a dataset's index is for all its readers.
                os.fchmod(file.fileno(), 0o644)
                file.writelines(parts)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


class RemoteStorage:
    """Files of TensorFlow's file systems, such as `gs://` and `ram://`."""

    def stat(self, path: str) -> tuple[int, int]:
        """See `Storage`; some file systems have no time of change, and give 0."""
        with _os_errors(path):
            found = tf.io.gfile.stat(path)
            return int(found.length), int(found.mtime_nsec)

    @contextmanager
    def reading(self, path: str) -> Iterator[ReadAt]:
        """See `Storage`."""
        with tf.io.gfile.GFile(path, "rb") as file:

            def read_at(offset: int, size: int) -> bytes:
                with _os_errors(path):
                    file.seek(offset)
                    data: bytes = file.read(size)
                    return data

            yield read_at

    def load(self, path: str) -> npt.NDArray[np.uint8]:
        """See `Storage`."""
        with _os_errors(path), tf.io.gfile.GFile(path, "rb") as file:
            return np.frombuffer(file.read(), np.uint8)

    def replace(self, path: str, parts: list[bytes]) -> None:
        """See `Storage`; object stores show a file when it is closed."""
        temporary = f"{path}.{uuid.uuid4().hex}"  # of this process, of all machines
        with _os_errors(path):
            with tf.io.gfile.GFile(temporary, "wb") as file:
                file.write(b"".join(parts))
            tf.io.gfile.rename(temporary, path, overwrite=True)


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Raise TensorFlow's errors as what the standard library would raise."""
    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(f"{path}: {error.message or type(error).__name__}") from error

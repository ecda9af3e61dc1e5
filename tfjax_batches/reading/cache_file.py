# SPDX-License-Identifier: Apache-2.0
"""Files of integers that follow from a dataset's files, kept between runs.

Owns where they lie and their form, all numbers little-endian: the size of what comes before the
integers (int64); JSON that says what they are and which files they follow from; the integers
(int64). They lie beside the dataset, or in the user's cache folder where the dataset's cannot be
written. Files are replaced whole, so processes that write one at a time lose nothing but work.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from absl import logging

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.storage import LocalStorage, Storage, is_remote, storage_of


@dataclasses.dataclass(frozen=True, slots=True)
class FileKey:
    """What tells a file from one that has been replaced, cut or appended to."""

    name: str
    size: int
    mtime_ns: int
    num_records: int

    @property
    def is_well_formed(self) -> bool:
        """Whether the fields have their types; they may come from a file that is none of ours."""
        numbers = (self.size, self.mtime_ns, self.num_records)
        return isinstance(self.name, str) and all(type(value) is int for value in numbers)


def file_key(storage: Storage, path: str, num_records: int) -> FileKey:
    """Return the key of a file as it is now.

    Raises:
        RecordError: It cannot be read.
    """
    try:
        size, mtime_ns = storage.stat(path)
    except OSError as error:
        raise unreadable(path, error) from error
    return FileKey(os.path.basename(path), size, mtime_ns, num_records)


def unreadable(path: str, error: OSError) -> RecordError:
    """Return the error of a dataset's file that cannot be read."""
    return RecordError(
        f"A split's files are readable; {path} is not: {error}. "
        "Restore the file or prepare the dataset again."
    )


def cache_paths(stem: str, kind: str) -> list[str]:
    """Return where a derived file may lie, in the order in which to look.

    Args:
        stem: Path of the dataset's files up to what differs, such as `/d/mnist-train.tfrecord`.
        kind: What ends the name.
    """
    folder, name = os.path.split(stem)
    paths = [os.path.join(folder, f".{name}.tfjax_batches.{kind}")]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(cache):  # "~" stays as it is for a user without a home
        full = stem if is_remote(stem) else os.path.abspath(stem)
        key = hashlib.sha256(full.encode()).hexdigest()[:16]
        paths.append(os.path.join(cache, "tfjax_batches", f"{name}-{key}.{kind}"))
    return paths


def load_cached(path: str, file_format: str) -> tuple[dict[str, Any], Int64Array] | None:
    """Return the header of a derived file and its integers, int64[n]; mapped, where that can be.

    Args:
        path: The file.
        file_format: The header's `format`.

    Returns:
        None: there is no such file, or it is none of that format.
    """
    try:
        data = storage_of(path).load(path)
        header_bytes = int(data[:8].view("<i8")[0])
        header = json.loads(data[8:header_bytes].tobytes())
        integers = data[header_bytes:].view("<i8").view(np.ndarray)
        return (header, integers) if header["format"] == file_format else None
    except (OSError, ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None


def save_cached(
    paths: Iterable[str], what: str, header: Mapping[str, Any], parts: Iterable[Int64Array]
) -> None:
    """Write a derived file, in the first place that takes it; warn where none does.

    Args:
        paths: As `cache_paths` returns them.
        what: What it holds, for the warning.
        header: What comes before the integers; with a `format`.
        parts: Integers int64[n], which follow one another.
    """
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the integers can be mapped as int64
    size = np.array([8 + len(text)], "<i8").tobytes()
    data = [size, text, *(part.astype("<i8", copy=False).tobytes() for part in parts)]
    failures = []
    for path in paths:
        try:
            if isinstance(storage := storage_of(path), LocalStorage):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            return storage.replace(path, data)
        except OSError as error:
            failures.append(f"{path}: {error}")
    logging.warning(
        "tfjax_batches: %s cannot be kept, and is made anew at each start: %s. "
        "Make one of these folders writable, or set XDG_CACHE_HOME.",
        what,
        "; ".join(failures),
    )

# SPDX-License-Identifier: Apache-2.0
"""Integers computed from a dataset's files, cached between runs.

A cache file is a `.npy` file, int64[n], followed by a header in JSON that says what the integers
are and which files they follow from. `np.load` maps the integers and ignores the rest. Both are in
one file, which is replaced whole: integers and header always belong together, and of two processes
that write at once one wins. The file is beside the dataset, or in the user's cache folder where the
dataset's folder cannot be written.
"""

import dataclasses
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from absl import logging

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.dataset_errors import unreadable_file
from tfjax_batches.reading.storage import file_stat, is_remote, open_for_reads, replace_file


@dataclasses.dataclass(frozen=True, slots=True)
class FileKey:
    """What identifies the content of a file: it differs once the file is replaced or changed."""

    name: str
    size: int
    mtime_ns: int
    num_records: int


def file_key(path: str, num_records: int) -> FileKey:
    """Return the key of a file in its present state.

    Args:
        path: The file.
        num_records: Records in it, by the dataset's metadata.

    Raises:
        RecordError: The file cannot be read.
    """
    try:
        size, mtime_ns = file_stat(path)
    except OSError as error:
        raise unreadable_file(path, error) from error
    return FileKey(os.path.basename(path), size, mtime_ns, num_records)


def split_stem(path: str) -> str:
    """Return the path of a data file without its number, which all files of its split share.

    Example:
        >>> split_stem("/d/mnist-train.tfrecord-00000-of-00002")
        '/d/mnist-train.tfrecord'
    """
    return re.sub(r"-\d+-of-\d+(?=[^/]*$)", "", path)


def cache_paths(stem: str, kind: str) -> list[str]:
    """Return where a cache file may be, in the order in which to look.

    Args:
        stem: As `split_stem` returns it.
        kind: The last part of the cache file's name.
    """
    folder, name = os.path.split(stem)
    paths = [os.path.join(folder, f".{name}.tfjax_batches.{kind}")]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(cache):  # a user without a home keeps the "~"
        full = stem if is_remote(stem) else os.path.abspath(stem)
        key = hashlib.sha256(full.encode()).hexdigest()[:16]
        paths.append(os.path.join(cache, "tfjax_batches", f"{name}-{key}.{kind}"))
    return paths


def load_cached(path: str, file_format: str) -> tuple[dict[str, Any], Int64Array] | None:
    """Return the header and the integers of a cache file, int64[n], memory-mapped if local.

    Args:
        path: The file.
        file_format: The header's `format`.

    Returns:
        None where there is no such file, or it has another format or is damaged.
    """
    try:
        if is_remote(path):
            with open_for_reads(path) as read_at:
                file = io.BytesIO(read_at(0, file_stat(path)[0]))
            integers, end = np.load(file), file.tell()
            text = file.getvalue()[end:]
        else:
            mapped = np.load(path, mmap_mode="r")
            integers = mapped.view(np.ndarray)
            with open(path, "rb") as local:
                local.seek(mapped.offset + mapped.nbytes)
                text = local.read()
        header = json.loads(text)
    except (OSError, ValueError, EOFError):
        return None
    return (header, integers) if header["format"] == file_format else None


def save_cached(
    paths: Iterable[str], what: str, header: Mapping[str, Any], parts: Iterable[Int64Array]
) -> str | None:
    """Write a cache file to the first path that can be written; log a warning if none can.

    Args:
        paths: As `cache_paths` returns them.
        what: What the file holds, for the warning.
        header: What the integers are, as JSON can hold it; has a `format`.
        parts: The integers, as arrays int64[n] that are joined.

    Returns:
        The path that was written, or None.
    """
    integers = np.concatenate([np.empty(0, np.int64), *parts])

    def write(file: Any) -> None:
        np.save(file, integers)
        file.write(json.dumps(header).encode())

    failures = []
    for path in paths:
        try:
            replace_file(path, write)
        except OSError as error:
            failures.append(f"{path}: {error}")
        else:
            return path
    logging.warning(
        "tfjax_batches: %s cannot be cached and is computed again at each start: %s. "
        "Make one of these folders writable, or set XDG_CACHE_HOME.",
        what,
        "; ".join(failures),
    )
    return None

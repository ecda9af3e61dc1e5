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
from tfjax_batches.reading.file_errors import unreadable_file
from tfjax_batches.reading.storage import (
    FILE_ERRORS,
    file_stat,
    is_network_mount,
    is_remote,
    open_file,
    replace_file,
)


@dataclasses.dataclass(frozen=True, slots=True)
class FileKey:
    """What identifies the content of a file: it differs once the file is replaced or changed."""

    name: str
    size: int
    mtime_ns: int
    num_records: int


def file_key(path: str, num_records: int) -> FileKey:
    """Return the key of a file, which has `num_records` records, in its present state.

    Raises:
        RecordError: The file cannot be read.
    """
    try:
        return FileKey(os.path.basename(path), *file_stat(path), num_records)
    except FILE_ERRORS as error:
        raise unreadable_file(path, error) from error


def split_stem(path: str) -> str:
    """Return the path of a data file without its number, which all files of its split share.

    Example:
        >>> split_stem("/d/mnist-train.tfrecord-00000-of-00002")
        '/d/mnist-train.tfrecord'
    """
    return re.sub(r"-\d+-of-\d+(?=[^/]*$)", "", path)


def cache_paths(stem: str, kind: str) -> list[str]:
    """Return where the cache file of a kind may be for a split, in the order in which to look."""
    folder, name = os.path.split(stem)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    full = stem if is_remote(stem) else os.path.abspath(stem)
    key = hashlib.sha256(full.encode()).hexdigest()[:16]
    return [
        os.path.join(folder, f".{name}.tfjax_batches.{kind}"),
        os.path.join(cache, "tfjax_batches", f"{name}-{key}.{kind}"),
    ]


def load_cached(path: str, file_format: str) -> tuple[dict[str, Any], Int64Array] | None:
    """Return the header and the integers of a cache file, int64[n], memory-mapped if local.

    None where there is no such file, its header has another `format`, or it is damaged.
    """
    try:
        with open_file(path) as file:
            # Read at once: there each small read, and each page of a map, would be a request.
            if is_remote(path) or is_network_mount(path):
                whole = io.BytesIO(file.read())
                integers = np.load(whole)
                header = json.loads(whole.read())
            else:
                integers = np.load(path, mmap_mode="r")
                file.seek(integers.offset + integers.nbytes)
                header = json.loads(file.read())
    except Exception:  # of a damaged file, NumPy and JSON raise many kinds
        return None
    is_ours = isinstance(header, dict) and header.get("format") == file_format
    return (header, np.asarray(integers)) if is_ours else None


def save_cached(
    paths: Iterable[str], what: str, header: Mapping[str, Any], integers: Int64Array
) -> str | None:
    """Write a cache file to the first path that can be written; log a warning if none can.

    Args:
        paths: As `cache_paths` returns them.
        what: What the file holds, for the warning.
        header: What the integers are, as JSON can hold it; has a `format`.
        integers: int64[n].

    Returns:
        The path that was written, or None.
    """

    def write(file: Any) -> None:
        np.save(file, integers)
        file.write(json.dumps(header).encode())

    failures = []
    for path in paths:
        try:
            replace_file(path, write)
        except FILE_ERRORS as error:
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

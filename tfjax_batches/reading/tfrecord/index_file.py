# SPDX-License-Identifier: Apache-2.0
"""Files that hold where records begin: cache files with the offsets of some TFRecord files.

The header lists these files with size, modification time and number of records. Holds at all times:
offsets are used only for a file with that size, time and number.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.cache_file import FileKey, load_cached, save_cached

_FORMAT = "tfjax_batches index 2"


def load_offsets(path: str) -> tuple[Int64Array, list[FileKey]] | None:
    """Return the offsets in an index file and the files that they are of; None: there are none.

    Returns:
        The offsets of all files, joined: for each the start of each record and the end of the last.
        Memory-mapped if local.
    """
    if (loaded := load_cached(path, _FORMAT)) is None:
        return None
    header, offsets = loaded
    keys = _stored_keys(header, offsets)
    return (offsets, keys) if keys else None


def save_offsets(
    paths: Iterable[str], what: str, offsets: Mapping[FileKey, Int64Array]
) -> str | None:
    """Write the offsets of some files to the first path that can be written; see `save_cached`."""
    header = {"format": _FORMAT, "files": [dataclasses.astuple(key) for key in offsets]}
    return save_cached(paths, what, header, np.concatenate(list(offsets.values())))


def split_offsets(joined: Int64Array, keys: Iterable[FileKey]) -> dict[FileKey, Int64Array]:
    """Return the offsets of each file, of those that are joined."""
    keys = list(keys)
    return dict(zip(keys, np.split(joined, starts_of(keys)[1:]), strict=True))


def starts_of(keys: Iterable[FileKey]) -> list[int]:
    """Return where the offsets of each file begin, if those of all files are joined."""
    starts: list[int] = np.cumsum([0, *(key.num_records + 1 for key in keys)])[:-1].tolist()
    return starts


def _stored_keys(header: Mapping[str, Any], offsets: Int64Array) -> list[FileKey]:
    """Return the files of an index file, none if the offsets are not theirs."""
    try:
        stored = [FileKey(*entry) for entry in header["files"]]
        starts = np.array(starts_of(stored))
        ends = starts + [key.num_records for key in stored]
        is_whole = len(offsets) == ends[-1] + 1
        # Wrong offsets could give whole records, of other examples.
        fit = (offsets[starts] == 0) & (offsets[ends] == [key.size for key in stored])
    except (KeyError, TypeError, IndexError):
        return []
    return stored if is_whole and fit.all() else []

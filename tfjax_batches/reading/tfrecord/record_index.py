# SPDX-License-Identifier: Apache-2.0
"""Where the records of TFRecord files begin and end, cached between runs.

Owns the index files, one a split: cache files with the offsets of the split's files. The header
lists these files with size, modification time and number of records.
Holds at all times: offsets are used only for a file with that size, time and number.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from tqdm import tqdm

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.cache_file import (
    FileKey,
    cache_paths,
    file_key,
    load_cached,
    save_cached,
    split_stem,
)
from tfjax_batches.reading.file_errors import unreadable_file
from tfjax_batches.reading.storage import FILE_ERRORS, open_file
from tfjax_batches.reading.tfrecord.offsets import scan_offsets

_FORMAT = "tfjax_batches index 2"
_SCAN_THREADS = 16  # they wait for storage more than they compute
_PROGRESS_AFTER_SECONDS = 1.5


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RecordIndex:
    """Where records begin and end.

    Attributes:
        offsets: int64[records + files], for each file the start of each record and the end of the
            last; memory-mapped where it comes from one index file.
        bases: int64[files], where the offsets of each file begin in `offsets`.
        paths: The index files; a split whose index file could not be written has none.
    """

    offsets: Int64Array
    bases: Int64Array
    paths: tuple[str, ...]

    def extents(self, files: Int64Array, records: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return where some records begin and end, both int64[n].

        Args:
            files: int64[n], index of each record's file.
            records: int64[n], index of each record in its file.
        """
        indices = self.bases[files] + records
        return self.offsets[indices], self.offsets[indices + 1]


def open_index(files: Mapping[str, int]) -> RecordIndex:
    """Return the index of some TFRecord files; scans those that no index file covers.

    Args:
        files: Path → number of records by the dataset's metadata.

    Raises:
        RecordError: A file is missing, or does not hold those records.
    """
    parts = [
        _open_split(stem, {path: files[path] for path in paths})
        for stem, paths in itertools.groupby(files, split_stem)
    ]
    if len(parts) == 1:  # not copied: its offsets stay in the mapped index file
        return parts[0]
    starts = np.cumsum([0, *(len(part.offsets) for part in parts)])
    return RecordIndex(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.bases + start for part, start in zip(parts, starts, strict=False)]),
        tuple(path for part in parts for path in part.paths),
    )


def _open_split(stem: str, files: Mapping[str, int]) -> RecordIndex:
    """Return the index of some files of one split."""
    keys = {path: file_key(path, count) for path, count in files.items()}
    index_files = cache_paths(stem, "index")
    known: dict[FileKey, Int64Array] = {}
    for index_file in index_files:
        if (loaded := load_cached(index_file, _FORMAT)) is None:
            continue
        header, offsets = loaded
        stored = _stored_keys(header, offsets)
        if set(keys.values()) <= set(stored):
            return _choose(offsets, stored, keys.values(), index_file)
        known |= zip(stored, np.split(offsets, _starts(stored)[1:]), strict=False)
    missing = {path: key for path, key in keys.items() if key not in known}
    replaced = {key.name for key in missing.values()}
    known = {key: part for key, part in known.items() if key.name not in replaced}
    known |= _scan_files(missing)
    offsets = np.concatenate(list(known.values()))
    header = {"format": _FORMAT, "files": [dataclasses.astuple(key) for key in known]}
    saved = save_cached(index_files, f"the index of {stem}", header, offsets)
    return _choose(offsets, known, keys.values(), saved)


def _stored_keys(header: Mapping[str, Any], offsets: Int64Array) -> list[FileKey]:
    """Return the files of an index file, none if the offsets are not theirs."""
    try:
        stored = [FileKey(*entry) for entry in header["files"]]
        starts = np.array(_starts(stored))
        ends = starts + [key.num_records for key in stored]
        is_whole = len(offsets) == ends[-1] + 1
        # Wrong offsets could give whole records, of other examples.
        fit = (offsets[starts] == 0) & (offsets[ends] == [key.size for key in stored])
    except (KeyError, TypeError, IndexError):
        return []
    return stored if is_whole and fit.all() else []


def _scan_files(missing: Mapping[str, FileKey]) -> dict[FileKey, Int64Array]:
    """Return the offsets of files, scanned in parallel, with a progress bar if it takes long."""

    def scan(path: str, key: FileKey) -> Int64Array:
        try:
            with open_file(path) as file:
                return scan_offsets(file, key.size, path, key.num_records)
        except RecordError:
            raise
        except FILE_ERRORS as error:
            raise unreadable_file(path, error) from error

    with ThreadPoolExecutor(_SCAN_THREADS) as pool:
        found = tqdm(
            pool.map(scan, missing.keys(), missing.values()),
            total=len(missing),
            desc="tfjax_batches: indexing records",
            unit=" files",
            delay=_PROGRESS_AFTER_SECONDS,
            leave=False,
        )
        return dict(zip(missing.values(), found, strict=True))


def _choose(
    offsets: Int64Array, stored: Iterable[FileKey], wanted: Iterable[FileKey], path: str | None
) -> RecordIndex:
    """Return the index of the wanted files, whose offsets are among those of the stored ones."""
    starts = dict(zip(stored, _starts(stored), strict=True))
    bases = np.array([starts[key] for key in wanted], np.int64)
    return RecordIndex(offsets, bases, () if path is None else (path,))


def _starts(keys: Iterable[FileKey]) -> list[int]:
    """Return where the offsets of each file begin, if those of all files are joined."""
    starts: list[int] = np.cumsum([0, *(key.num_records + 1 for key in keys)])[:-1].tolist()
    return starts

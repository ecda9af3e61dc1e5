# SPDX-License-Identifier: Apache-2.0
"""Where the records of TFRecord files begin and end, cached between runs.

There is one index file a split; while several processes make it, each has one of its own part too.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.cache_file import FileKey, cache_paths, file_key, split_stem
from tfjax_batches.reading.tfrecord.index_file import (
    load_offsets,
    save_offsets,
    split_offsets,
    starts_of,
)
from tfjax_batches.reading.tfrecord.partial_scan import WHOLE, Part, PartialScan

_THREADS = 32  # they wait for storage


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


def open_index(files: Mapping[str, int], part: Part = WHOLE) -> RecordIndex:
    """Return the index of some TFRecord files; scans those that no index file covers.

    Args:
        files: Path → number of records by the dataset's metadata.
        part: Which of several processes this is, that open the same index.

    Raises:
        RecordError: A file is missing, or does not hold those records.
    """
    parts = [_open_split(stem, each, part) for stem, each in _by_split(files)]
    if len(parts) == 1:  # not copied: its offsets stay in the mapped index file
        return parts[0]
    starts = np.cumsum([0, *(len(part.offsets) for part in parts)])
    return RecordIndex(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.bases + start for part, start in zip(parts, starts, strict=False)]),
        tuple(path for part in parts for path in part.paths),
    )


def index_part(files: Mapping[str, int], part: Part) -> list[str]:
    """Scan one part of the files that no index file covers; return the files that hold the result.

    Args:
        files: As for `open_index`.
        part: Of which part the files are scanned.

    Raises:
        RecordError: As for `open_index`.
    """
    paths = []
    for stem, each in _by_split(files):
        keys = _find_keys(each)
        known = _load_known(cache_paths(stem, "index"), keys)
        scan = PartialScan(stem, {p: k for p, k in keys.items() if k not in known}, part)
        scan.scan_own()
        paths += scan.paths
    return paths


def _by_split(files: Mapping[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    for stem, paths in itertools.groupby(files, split_stem):
        yield stem, {path: files[path] for path in paths}


def _find_keys(files: Mapping[str, int]) -> dict[str, FileKey]:
    """Return the key of each file; many at a time, since each may be a request."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(files, pool.map(file_key, files, files.values()), strict=True))


def _open_split(stem: str, files: Mapping[str, int], part: Part) -> RecordIndex:
    """Return the index of some files of one split."""
    keys = _find_keys(files)
    index_files = cache_paths(stem, "index")
    for index_file in index_files:
        if (stored := load_offsets(index_file)) and set(keys.values()) <= set(stored[1]):
            return _choose(*stored, keys.values(), index_file)
    known = _load_known(index_files, keys)
    missing = {path: key for path, key in keys.items() if key not in known}
    scan = PartialScan(stem, missing, part)
    known |= scan.scan_all()
    offsets = np.concatenate(list(known.values()))
    saved = save_offsets(index_files, f"the index of {stem}", known)
    scan.remove()
    return _choose(offsets, known, keys.values(), saved)


def _load_known(
    index_files: Iterable[str], keys: Mapping[str, FileKey]
) -> dict[FileKey, Int64Array]:
    """Return the offsets in index files, but not of files that were replaced since."""
    known: dict[FileKey, Int64Array] = {}
    for index_file in index_files:
        if stored := load_offsets(index_file):
            known |= split_offsets(*stored)
    present = {key.name: key for key in keys.values()}
    return {key: part for key, part in known.items() if present.get(key.name, key) == key}


def _choose(
    offsets: Int64Array, stored: Iterable[FileKey], wanted: Iterable[FileKey], path: str | None
) -> RecordIndex:
    """Return the index of the wanted files, whose offsets are among those of the stored ones."""
    starts = dict(zip(stored, starts_of(stored), strict=True))
    bases = np.array([starts[key] for key in wanted], np.int64)
    return RecordIndex(offsets, bases, () if path is None else (path,))

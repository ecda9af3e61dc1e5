# SPDX-License-Identifier: Apache-2.0
"""Where the records of TFRecord files begin and end, cached between runs.

Owns the index files, one a split: cache files with the offsets of the split's files. The header
lists these files with size, modification time and number of records.
Holds at all times: offsets are used only for a file with that size, time and number.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

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
from tfjax_batches.reading.dataset_errors import unreadable_file
from tfjax_batches.reading.storage import is_remote, open_for_reads
from tfjax_batches.reading.tfrecord.offsets import scan_offsets

_FORMAT = "tfjax_batches index 2"
INDEX = "index"  # the kind of cache file
_SCAN_THREADS = 16  # they wait for storage more than they compute
_PROGRESS_AFTER_SECONDS = 1.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    by_split: dict[str, dict[str, int]] = {}
    for path, count in files.items():
        by_split.setdefault(split_stem(path), {})[path] = count
    parts: list[Int64Array] = []
    bases: dict[str, int] = {}
    index_files: list[str | None] = []
    length = 0
    for stem, members in by_split.items():
        part, starts, index_file = _open_split(stem, members)
        bases |= {path: length + start for path, start in starts.items()}
        length += len(part)
        parts.append(part)
        index_files.append(index_file)
    return RecordIndex(
        # The offsets of a single split are not copied: they stay in the mapped index file.
        offsets=parts[0] if len(parts) == 1 else np.concatenate(parts),
        bases=np.array([bases[path] for path in files], np.int64),
        paths=tuple(path for path in index_files if path is not None),
    )


def _open_split(
    stem: str, files: Mapping[str, int]
) -> tuple[Int64Array, dict[str, int], str | None]:
    """Return the offsets of a split's files, where those of each begin, and the index file."""
    keys = {path: file_key(path, count) for path, count in files.items()}
    known: dict[FileKey, Int64Array] = {}
    for index_file in cache_paths(stem, INDEX):
        offsets, starts = _load(index_file)
        if all(key in starts for key in keys.values()):
            return offsets, {path: starts[key] for path, key in keys.items()}, index_file
        known |= {
            key: offsets[start : start + key.num_records + 1] for key, start in starts.items()
        }
    known |= _scan_files({path: key for path, key in keys.items() if key not in known})
    saved = _save(stem, keys.values(), known)
    chosen = [known[key] for key in keys.values()]
    return np.concatenate(chosen), dict(zip(files, _starts(keys.values()), strict=True)), saved


def _scan_files(missing: Mapping[str, FileKey]) -> dict[FileKey, Int64Array]:
    """Return the offsets of files, scanned in parallel, with a progress bar if it takes long."""

    def scan(path: str, key: FileKey) -> Int64Array:
        try:
            with open_for_reads(path) as read_at:
                return scan_offsets(
                    read_at, key.size, path, key.num_records, skip_data=not is_remote(path)
                )
        except RecordError:
            raise
        except OSError as error:
            raise unreadable_file(path, error) from error

    with (
        ThreadPoolExecutor(_SCAN_THREADS) as pool,
        tqdm(
            total=len(missing),
            desc="tfjax_batches: indexing records",
            unit=" files",
            delay=_PROGRESS_AFTER_SECONDS,
            leave=False,
        ) as progress,
    ):
        futures = {key: pool.submit(scan, path, key) for path, key in missing.items()}
        found = {}
        try:
            for key, future in futures.items():
                found[key] = future.result()
                progress.update()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def _load(index_file: str) -> tuple[Int64Array, dict[FileKey, int]]:
    """Return an index file's offsets and where those of each file begin; both empty without one."""
    if (loaded := load_cached(index_file, _FORMAT)) is None:
        return np.empty(0, np.int64), {}
    header, offsets = loaded
    keys = [FileKey(*entry) for entry in header["files"]]
    return offsets, dict(zip(keys, _starts(keys), strict=True))


def _save(stem: str, current: Iterable[FileKey], known: Mapping[FileKey, Int64Array]) -> str | None:
    """Write the index file of a split; return its path, or None if it cannot be written."""
    # Only the current key of a file that was replaced.
    newest = {key.name: key for key in [*known, *current]}
    keys = sorted(newest.values(), key=lambda key: key.name)
    header = {"format": _FORMAT, "files": [dataclasses.astuple(key) for key in keys]}
    parts = [known[key] for key in keys]
    return save_cached(cache_paths(stem, INDEX), f"the index of {stem}", header, parts)


def _starts(keys: Iterable[FileKey]) -> list[int]:
    """Return where the offsets of each file begin, if those of all files are joined."""
    starts: list[int] = np.cumsum([0, *(key.num_records + 1 for key in keys)])[:-1].tolist()
    return starts

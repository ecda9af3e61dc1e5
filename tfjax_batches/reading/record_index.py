# SPDX-License-Identifier: Apache-2.0
"""Where the records of a split begin and end, kept between runs.

Owns the index files, which are derived files. One holds the offsets of all files of one split; its
header names these, with size, time of change and records.
Holds at all times: an entry is used only for a file of that size, time and record count.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
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
    unreadable,
)
from tfjax_batches.reading.offsets import scan_offsets
from tfjax_batches.reading.storage import Storage, is_remote, storage_of

_FORMAT = "tfjax_batches index 1"
_SCAN_THREADS = 16  # they wait for storage more than they compute
_PROGRESS_AFTER_SECONDS = 1.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordIndex:
    """Where records begin and end.

    Attributes:
        offsets: int64[records + files], of each file the start of each record and the end of the
            last; mapped from the index file where there is one.
        bases: int64[files], where the offsets of a file begin in `offsets`.
    """

    offsets: Int64Array
    bases: Int64Array

    def extents(self, files: Int64Array, records: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return where record `records[i]` of file `files[i]` begins and ends, both int64[n]."""
        places = self.bases[files] + records
        return self.offsets[places], self.offsets[places + 1]


def open_index(files: Mapping[str, int]) -> RecordIndex:
    """Return the index of some TFRecord files, from index files or by walking what they lack.

    Args:
        files: Path → number of records by the dataset's metadata.

    Raises:
        RecordError: A file is missing, or does not hold those records.
    """
    parts: list[Int64Array] = []
    bases: dict[str, int] = {}
    length = 0
    for stem, paths in _by_split(files).items():
        part, starts = _open_split(stem, {path: files[path] for path in paths})
        bases |= {path: length + start for path, start in starts.items()}
        length += len(part)
        parts.append(part)
    # Of one split nothing is copied: its offsets stay in the index file.
    offsets = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return RecordIndex(offsets=offsets, bases=np.array([bases[path] for path in files], np.int64))


def index_paths(stem: str) -> list[str]:
    """Return where the index of a split may lie, in the order in which to look.

    Args:
        stem: Path of the split's files up to their number, such as `/d/mnist-train.tfrecord`.
    """
    return cache_paths(stem, "index")


def split_stem(path: str) -> str:
    """Return the path of a file up to its number, which all files of its split share."""
    return re.sub(r"-\d+-of-\d+(?=[^/]*$)", "", path)


def _by_split(paths: Iterable[str]) -> dict[str, list[str]]:
    """Group paths by what comes before the file's number."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(split_stem(path), []).append(path)
    return groups


def _open_split(stem: str, files: Mapping[str, int]) -> tuple[Int64Array, dict[str, int]]:
    """Return offsets of a split's files, and where those of each file begin."""
    storage = storage_of(stem)
    keys = [file_key(storage, path, count) for path, count in files.items()]
    known: dict[FileKey, Int64Array] = {}
    for path in index_paths(stem):
        offsets, starts = _load(path)
        if all(key in starts for key in keys):
            return offsets, {path: starts[key] for path, key in zip(files, keys, strict=True)}
        known |= {
            key: offsets[start : start + key.num_records + 1] for key, start in starts.items()
        }
    missing = [(path, key) for path, key in zip(files, keys, strict=True) if key not in known]
    known |= _scan_files(storage, missing)
    _save(stem, keys, known)
    chosen = [known[key] for key in keys]
    starts_of = np.cumsum([0, *map(len, chosen)]).tolist()
    return np.concatenate(chosen), dict(zip(files, starts_of, strict=False))


def _scan_files(
    storage: Storage, missing: Sequence[tuple[str, FileKey]]
) -> dict[FileKey, Int64Array]:
    """Walk files, several at a time, with a progress bar where it takes long."""

    def scan(path: str, key: FileKey) -> Int64Array:
        try:
            with storage.reading(path) as read_at:
                return scan_offsets(
                    read_at, key.size, path, key.num_records, skip_data=not is_remote(path)
                )
        except RecordError:
            raise
        except OSError as error:
            raise unreadable(path, error) from error

    with (
        ThreadPoolExecutor(_SCAN_THREADS) as pool,
        tqdm(
            total=len(missing),
            desc="tfjax_batches: finding records",
            unit=" files",
            delay=_PROGRESS_AFTER_SECONDS,
            leave=False,
        ) as progress,
    ):
        futures = {key: pool.submit(scan, path, key) for path, key in missing}
        found = {}
        try:
            for key, future in futures.items():
                found[key] = future.result()
                progress.update()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def _load(path: str) -> tuple[Int64Array, dict[FileKey, int]]:
    """Return an index file's offsets and where those of each file begin; nothing of a bad one."""
    nothing = np.empty(0, np.int64), dict[FileKey, int]()
    if (loaded := load_cached(path, _FORMAT)) is None:
        return nothing
    header, offsets = loaded
    try:
        keys = [FileKey(*entry) for entry in header["files"]]
    except (TypeError, KeyError):
        return nothing
    if not all(key.is_well_formed for key in keys):
        return nothing
    starts = np.cumsum([0, *(key.num_records + 1 for key in keys)]).tolist()
    if starts[-1] != len(offsets):
        return nothing
    return offsets, {
        key: start
        for key, start in zip(keys, starts, strict=False)
        if offsets[start] == 0 and offsets[start + key.num_records] == key.size
    }


def _save(stem: str, current: Sequence[FileKey], entries: Mapping[FileKey, Int64Array]) -> None:
    """Write the index file."""
    # Of a file that was replaced the current entry is kept.
    newest = {key.name: key for key in [*entries, *current]}
    keys = sorted(newest.values(), key=lambda key: key.name)
    header = {"format": _FORMAT, "files": [dataclasses.astuple(key) for key in keys]}
    parts = [entries[key] for key in keys]
    save_cached(index_paths(stem), f"the index of {stem}", header, parts)

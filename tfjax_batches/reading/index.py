# SPDX-License-Identifier: Apache-2.0
"""Where the records of a split begin and end, kept between runs.

Owns the index files. One holds the offsets of all files of one split, all numbers little-endian:
the size of what comes before the offsets (int64); JSON that names the files with size, time of
change and records; the offsets (int64).
It lies beside the dataset, or in the user's cache folder where the dataset's cannot be written.
Holds at all times: an entry is used only for a file of that size, time and record count; index
files are replaced whole, so processes that write one at a time lose nothing but work.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from absl import logging
from tqdm import tqdm

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.offsets import scan_offsets
from tfjax_batches.reading.storage import LocalStorage, Storage, is_remote, storage_of

_FORMAT = "tfjax_batches index 1"
_SCAN_THREADS = 16  # they wait for storage more than they compute
_PROGRESS_AFTER_SECONDS = 1.5


@dataclasses.dataclass(frozen=True, slots=True)
class FileKey:
    """What tells a file from one that has been replaced, cut or appended to."""

    name: str
    size: int
    mtime_ns: int
    num_records: int


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
    folder, name = os.path.split(stem)
    paths = [os.path.join(folder, f".{name}.tfjax_batches.index")]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(cache):  # "~" stays as it is for a user without a home
        full = stem if is_remote(stem) else os.path.abspath(stem)
        key = hashlib.sha256(full.encode()).hexdigest()[:16]
        paths.append(os.path.join(cache, "tfjax_batches", f"{name}-{key}.index"))
    return paths


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
    keys = [_key(storage, path, count) for path, count in files.items()]
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


def _key(storage: Storage, path: str, num_records: int) -> FileKey:
    try:
        size, mtime_ns = storage.stat(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    return FileKey(os.path.basename(path), size, mtime_ns, num_records)


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
            raise _unreadable(path, error) from error

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
    try:
        data = storage_of(path).load(path)
        header_bytes = int(data[:8].view("<i8")[0])
        header = json.loads(data[8:header_bytes].tobytes())
        keys = [FileKey(*entry) for entry in header["files"]]
        if not all(
            isinstance(key.name, str)
            and all(type(value) is int for value in (key.size, key.mtime_ns, key.num_records))
            for key in keys
        ):
            return nothing
        offsets = data[header_bytes:].view("<i8").view(np.ndarray)
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return nothing
    starts = np.cumsum([0, *(key.num_records + 1 for key in keys)]).tolist()
    if header.get("format") != _FORMAT or starts[-1] != len(offsets):
        return nothing
    return offsets, {
        key: start
        for key, start in zip(keys, starts, strict=False)
        if offsets[start] == 0 and offsets[start + key.num_records] == key.size
    }


def _save(stem: str, current: Sequence[FileKey], entries: Mapping[FileKey, Int64Array]) -> None:
    """Write the index file, in the first place that takes it."""
    # Of a file that was replaced the current entry is kept.
    newest = {key.name: key for key in [*entries, *current]}
    keys = sorted(newest.values(), key=lambda key: key.name)
    header = {"format": _FORMAT, "files": [dataclasses.astuple(key) for key in keys]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the offsets can be mapped as int64
    size = np.array([8 + len(text)], "<i8").tobytes()
    parts = [size, text, *(entries[key].astype("<i8").tobytes() for key in keys)]
    failures = []
    for path in index_paths(stem):
        try:
            if isinstance(storage := storage_of(path), LocalStorage):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            return storage.replace(path, parts)
        except OSError as error:
            failures.append(f"{path}: {error}")
    logging.warning(
        "tfjax_batches: the index of %s cannot be kept, and is made anew at each start: %s. "
        "Make one of these folders writable, or set XDG_CACHE_HOME.",
        stem,
        "; ".join(failures),
    )


def _unreadable(path: str, error: OSError) -> RecordError:
    return RecordError(
        f"A split's files are readable; {path} is not: {error}. "
        "Restore the file or prepare the dataset again."
    )

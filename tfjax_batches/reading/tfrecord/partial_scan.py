# SPDX-License-Identifier: Apache-2.0
"""Scans the files of a split in several processes, each file in one of them where all goes well.

Each process first scans its own part of the files, and keeps the result in a file of its own beside
the index file. It takes over what it finds in the files of the others. What is still missing after
it has waited as long as its own part took, it scans itself; so no process waits for one that ended,
or that sees another folder.
"""

import dataclasses
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tqdm import tqdm

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.cache_file import FileKey, cache_paths
from tfjax_batches.reading.file_errors import unreadable_file
from tfjax_batches.reading.storage import FILE_ERRORS, find_files, open_file, remove_file
from tfjax_batches.reading.tfrecord.index_file import load_offsets, save_offsets, split_offsets
from tfjax_batches.reading.tfrecord.offsets import scan_offsets

_SCAN_THREADS = 16  # they wait for storage more than they compute
_PROGRESS_AFTER_SECONDS = 1.5
_LOOK_SECONDS = 0.5  # between looks at the files of other processes
_LEAST_PATIENCE_SECONDS = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One of several processes, or of several calls of a command.

    Attributes:
        number: 0 <= number < count.
        count: How many there are.
    """

    number: int
    count: int


WHOLE = Part(0, 1)
"""The only process."""


class PartialScan:
    """The scan of some files of a split.

    Args:
        stem: As `split_stem` returns it.
        missing: Path → key of the files.
        part: Which process this is.
    """

    def __init__(self, stem: str, missing: Mapping[str, FileKey], part: Part) -> None:
        self._stem = stem
        self._part = part
        first = len(missing) * part.number // part.count
        last = len(missing) * (part.number + 1) // part.count
        self._own = dict(list(missing.items())[first:last])
        self._missing = dict(missing)
        self._index_files = cache_paths(stem, "index")
        self._saved: str | None = None

    @property
    def paths(self) -> list[str]:
        """The file that holds the own part."""
        return [] if self._saved is None else [self._saved]

    def scan_all(self) -> dict[FileKey, Int64Array]:
        """Return the offsets of all files, by this process or by others."""
        if self._part.count == 1:
            found = self._load_others()
            return found | self._scan({p: k for p, k in self._missing.items() if k not in found})
        start = time.monotonic()
        found = self.scan_own()
        patience = max(_LEAST_PATIENCE_SECONDS, time.monotonic() - start)
        start = time.monotonic()
        while left := {p: k for p, k in self._missing.items() if k not in found}:
            found |= self._load_others()
            if time.monotonic() - start > patience:
                return found | self._scan({p: k for p, k in left.items() if k not in found})
            time.sleep(_LOOK_SECONDS)
        return found

    def scan_own(self) -> dict[FileKey, Int64Array]:
        """Return the offsets of the own part, and keep them in a file."""
        found = self._load_others()
        own = {path: key for path, key in self._own.items() if key not in found}
        if own:
            scanned = self._scan(own)
            found |= scanned
            what = f"part {self._part.number} of the index of {self._stem}"
            name = f"{self._part.number:05}-of-{self._part.count:05}"
            paths = [f"{path}.{name}" for path in self._index_files]
            self._saved = save_offsets(paths, what, scanned)
        return found

    def remove(self) -> None:
        """Delete the file of the own part, once the index file holds all; if alone, of any part."""
        for path in self._part_files() if self._part.count == 1 else self.paths:
            remove_file(path)

    def _part_files(self) -> list[str]:
        return [path for index in self._index_files for path in find_files(f"{index}.*-of-*")]

    def _load_others(self) -> dict[FileKey, Int64Array]:
        """Return the offsets that others have found, in their parts or in the index file."""
        wanted = set(self._missing.values())
        found: dict[FileKey, Int64Array] = {}
        for path in [*self._part_files(), *self._index_files]:
            if stored := load_offsets(path):
                found |= {k: o for k, o in split_offsets(*stored).items() if k in wanted}
        return found

    def _scan(self, files: Mapping[str, FileKey]) -> dict[FileKey, Int64Array]:
        """Return the offsets of files, scanned in parallel; shows progress if it takes long."""
        with ThreadPoolExecutor(_SCAN_THREADS) as pool:
            found = tqdm(
                pool.map(_scan_file, files.keys(), files.values()),
                total=len(files),
                desc="tfjax_batches: indexing records",
                unit=" files",
                delay=_PROGRESS_AFTER_SECONDS,
                leave=False,
                disable=self._part.number != 0,
            )
            return dict(zip(files.values(), found, strict=True))


def _scan_file(path: str, key: FileKey) -> Int64Array:
    try:
        with open_file(path) as file:
            return scan_offsets(file, key.size, path, key.num_records)
    except RecordError:
        raise
    except FILE_ERRORS as error:
        raise unreadable_file(path, error) from error

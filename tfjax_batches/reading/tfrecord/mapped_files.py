# SPDX-License-Identifier: Apache-2.0
"""Bytes of files on this machine, read through memory maps."""

import functools
import mmap
from collections.abc import Sequence

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.file_errors import unreadable_file
from tfjax_batches.reading.open_files import OpenFiles

# Pages of a map that were touched count as memory of the process, up to the whole dataset. They
# are released after so many bytes; the page cache gives them back in a few µs per 64 KB.
_MAPPED_BYTES = 2**24


class MappedFiles:
    """Reads bytes of some files. Safe to use from many threads; maps each file on first use."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        # Not a method: files are closed at once only where nothing refers to itself.
        self._maps = OpenFiles(functools.partial(_map_file, paths))
        self._bytes_read = 0

    def read(self, files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[bytes]:
        """Return n spans of bytes, each shorter than asked for where its file ends early.

        Args:
            files: int64[n], index of each span's file in `paths`.
            starts: int64[n], its first byte.
            ends: int64[n], the byte after its last.

        Raises:
            RecordError: A file is missing, or was cut while it was mapped.
        """
        maps = {file: self._open_whole(file) for file in set(files.tolist())}
        spans = zip(files.tolist(), starts.tolist(), ends.tolist(), strict=True)
        data = [maps[file][start:end] for file, start, end in spans]
        self._release_pages(int((ends - starts).sum()))
        return data

    def _release_pages(self, bytes_read: int) -> None:
        # Without a lock: a lost addition only delays it a little.
        self._bytes_read += bytes_read
        if self._bytes_read >= _MAPPED_BYTES:
            self._bytes_read = 0
            for mapped in self._maps.all_open():
                mapped.madvise(mmap.MADV_DONTNEED)

    def _open_whole(self, file: int) -> mmap.mmap:
        """Return the map of a file. Reading beyond the end of a cut file would kill the process."""
        mapped = self._maps[file]
        if mapped.size() < len(mapped):
            reason = f"it was cut from {len(mapped)} to {mapped.size()} bytes"
            raise unreadable_file(self._paths[file], reason)
        return mapped


def _map_file(paths: Sequence[str], file: int) -> mmap.mmap:
    try:
        with open(paths[file], "rb") as opened:
            return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise unreadable_file(paths[file], error) from error

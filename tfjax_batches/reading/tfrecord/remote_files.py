# SPDX-License-Identifier: Apache-2.0
"""Bytes of files on TensorFlow's file systems, read in ranges.

The number of requests is what costs there: spans near each other are read at once, and many reads
wait at the same time.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.dataset_errors import unreadable_file
from tfjax_batches.reading.storage import open_for_reads

# tf.io.gfile reads at least 512 KiB at a time, so a gap of half of that costs nothing.
_GAP_BYTES = 2**18
_RANGE_BYTES = 2**23  # beyond this, two parallel reads are faster than one
_THREADS = 32


def plan_ranges(files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[list[int]]:
    """Return groups of spans that are each read at once, as lists of indices.

    Args:
        files: int64[n], index of each span's file.
        starts: int64[n], its first byte.
        ends: int64[n], the byte after its last.

    Example:
        >>> far = 2**30
        >>> plan_ranges(*np.array([[3, 3, 3], [far, 0, 40], [far + 9, 40, 50]]))
        [[1, 2], [0]]
    """
    groups: list[list[int]] = []
    file = first = last = -1  # of the last group
    for member in np.lexsort((starts, files)).tolist():
        start, end = int(starts[member]), int(ends[member])
        if (
            groups
            and file == files[member]
            and start <= last + _GAP_BYTES
            and end <= first + _RANGE_BYTES
        ):
            groups[-1].append(member)
            last = max(last, end)
        else:
            groups.append([member])
            file, first, last = int(files[member]), start, end
    return groups


class RemoteFiles:
    """Reads bytes of some files. Safe to use from many threads; keeps no file and no thread.

    Args:
        paths: The files.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def read(self, files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[bytes]:
        """Return n spans of bytes. See `MappedFiles.read`.

        Raises:
            RecordError: A file cannot be read.
        """
        data = [b""] * len(files)

        def read_range(group: list[int]) -> None:
            first, last = int(starts[group].min()), int(ends[group].max())
            buffer = self._read_bytes(self._paths[files[group[0]]], first, last)
            for member in group:
                data[member] = buffer[starts[member] - first : ends[member] - first]

        groups = plan_ranges(files, starts, ends)
        if len(groups) == 1:
            read_range(groups[0])
        elif groups:
            with ThreadPoolExecutor(min(len(groups), _THREADS)) as pool:
                list(pool.map(read_range, groups))
        return data

    def _read_bytes(self, path: str, start: int, end: int) -> bytes:
        try:
            with open_for_reads(path) as read_at:
                return read_at(start, end - start)
        except OSError as error:
            raise unreadable_file(path, error) from error

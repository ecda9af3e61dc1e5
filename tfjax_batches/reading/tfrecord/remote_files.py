# SPDX-License-Identifier: Apache-2.0
"""Bytes of files on TensorFlow's file systems, read in ranges.

The number of requests is what costs there: spans near each other are read at once, and many reads
wait at the same time.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.file_errors import unreadable_file
from tfjax_batches.reading.storage import FILE_ERRORS, open_file

# tf.io.gfile reads at least 512 KiB at a time, so a gap of half of that costs nothing.
_GAP_BYTES = 2**18
_RANGE_BYTES = 2**23  # beyond this, two parallel reads are faster than one
_THREADS = 32


class RemoteFiles:
    """Reads bytes of some files. Safe to use from many threads; keeps no file and no thread."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def read(self, files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[bytes]:
        """Return n spans of bytes. See `MappedFiles.read`."""
        data = [b""] * len(files)

        def read_range(group: list[int]) -> None:
            first, last = int(starts[group].min()), int(ends[group].max())
            path = self._paths[files[group[0]]]
            try:
                with open_file(path) as file:
                    file.seek(first)
                    buffer = file.read(last - first)
            except FILE_ERRORS as error:
                raise unreadable_file(path, error) from error
            for member in group:
                data[member] = buffer[starts[member] - first : ends[member] - first]

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(read_range, plan_ranges(files, starts, ends)))
        return data


def plan_ranges(files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[list[int]]:
    """Return groups of spans, int64[n] as in `read`, that are each read at once: lists of indices.

    Example:
        >>> far = 2**30
        >>> plan_ranges(*np.array([[3, 3, 3], [far, 0, 40], [far + 9, 40, 50]]))
        [[1, 2], [0]]
    """
    groups: list[list[int]] = []
    last_file = first = last = -1  # of the last group
    for member in np.lexsort((starts, files)).tolist():
        file, start, end = int(files[member]), int(starts[member]), int(ends[member])
        is_near = file == last_file and start <= last + _GAP_BYTES
        if is_near and end <= first + _RANGE_BYTES:
            groups[-1].append(member)
            last = max(last, end)
        else:
            groups.append([member])
            last_file, first, last = file, start, end
    return groups

# SPDX-License-Identifier: Apache-2.0
"""Bytes of files on TensorFlow's file systems, read in ranges.

The number of requests is what costs there: spans near each other are read at once, and many reads
wait at the same time.
"""

import dataclasses
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """Bytes of one file that are read at once.

    Attributes:
        file: Index of the file.
        start: First byte.
        end: The byte after the last.
        members: Indices of the spans in it, among those asked for.
    """

    file: int
    start: int
    end: int
    members: tuple[int, ...]


def plan_ranges(files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[ByteRange]:
    """Return the reads that cover all spans, with neighbours merged.

    Args:
        files: int64[n], index of each span's file.
        starts: int64[n], its first byte.
        ends: int64[n], the byte after its last.

    Example:
        >>> one, far = 0, 2**30
        >>> ranges = plan_ranges(*np.array([[3, 3, 3], [far, 0, 40], [far + 9, 40, 50]]))
        >>> [(r.start, r.members) for r in ranges] == [(0, (1, 2)), (far, (0,))]
        True
    """
    ranges: list[ByteRange] = []
    for member in np.lexsort((starts, files)).tolist():
        file, start, end = int(files[member]), int(starts[member]), int(ends[member])
        last = ranges[-1] if ranges else None
        if (
            last is not None
            and last.file == file
            and start <= last.end + _GAP_BYTES
            and end <= last.start + _RANGE_BYTES
        ):
            ranges[-1] = dataclasses.replace(
                last, end=max(last.end, end), members=(*last.members, member)
            )
        else:
            ranges.append(ByteRange(file=file, start=start, end=end, members=(member,)))
    return ranges


class RemoteFiles:
    """Reads bytes of some files. Safe to use from many threads; keeps no file and no thread.

    Args:
        paths: The files.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def read(self, files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[bytes]:
        """Return n spans of bytes, each shorter than asked for where its file ends early.

        Args:
            files: int64[n], index of each span's file in `paths`.
            starts: int64[n], its first byte.
            ends: int64[n], the byte after its last.

        Raises:
            RecordError: A file cannot be read.
        """
        data = [b""] * len(files)

        def read_range(part: ByteRange) -> None:
            buffer = self._read_bytes(part)
            for member in part.members:
                data[member] = buffer[starts[member] - part.start : ends[member] - part.start]

        ranges = plan_ranges(files, starts, ends)
        if len(ranges) == 1:
            read_range(ranges[0])
        elif ranges:
            with ThreadPoolExecutor(min(len(ranges), _THREADS)) as pool:
                list(pool.map(read_range, ranges))
        return data

    def _read_bytes(self, part: ByteRange) -> bytes:
        path = self._paths[part.file]
        try:
            with open_for_reads(path) as read_at:
                return read_at(part.start, part.end - part.start)
        except OSError as error:
            raise unreadable_file(path, error) from error

# SPDX-License-Identifier: Apache-2.0
"""Random access to TFRecord files on TensorFlow's file systems, which have no memory maps.

What counts there is the number of requests: records that lie near each other are read at once,
and many reads wait at a time.
"""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.framing import FrameError, unpack_frames
from tfjax_batches.reading.split import Split
from tfjax_batches.reading.storage import storage_of
from tfjax_batches.reading.tfrecord import TFRecordPlaces

# tf.io.gfile reads no less than 512 KiB: a gap of half of it costs nothing more.
_GAP_BYTES = 2**18
_RANGE_BYTES = 2**23  # beyond, two reads side by side are faster than one
_THREADS = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """Bytes of one file that are read at once.

    Attributes:
        file: Number of the file.
        start: First byte.
        end: The byte after the last.
        members: Indices of the records in it, among those asked for.
    """

    file: int
    start: int
    end: int
    members: tuple[int, ...]


def plan_ranges(files: Int64Array, starts: Int64Array, ends: Int64Array) -> list[ByteRange]:
    """Return the reads that get all records, neighbours merged.

    Args:
        files: int64[n], number of the file of each record.
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


class RemoteTFRecordReader:
    """Reads the records of a split by example index, in ranges of bytes.

    Safe to use from many threads at a time. Keeps no file open and no thread.

    Args:
        source: Where the records are.
        verify_crc: Check each record's checksum.
    """

    def __init__(self, source: Split, *, verify_crc: bool = True) -> None:
        self._places = TFRecordPlaces(source)
        self._verify_crc = verify_crc

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the stored bytes of each example, object[n].

        Raises:
            RecordError: A file is missing or damaged; names file, record and offset.
        """
        files, starts, ends = self._places.locate(examples)
        data = np.empty(len(examples), object)

        def read_range(part: ByteRange) -> None:
            buffer, members = self._read_bytes(part), np.array(part.members)
            froms, tos = starts[members] - part.start, ends[members] - part.start
            frames = [buffer[i:j] for i, j in zip(froms.tolist(), tos.tolist(), strict=True)]
            try:
                found = unpack_frames(frames, tos - froms, verify_crc=self._verify_crc)
            except FrameError as error:
                example = int(examples[members[error.member]])
                raise self._places.error(example, error) from error
            for member, record in zip(part.members, found, strict=True):
                data[member] = record

        ranges = plan_ranges(files, starts, ends)
        if len(ranges) == 1:
            read_range(ranges[0])
        elif ranges:
            with ThreadPoolExecutor(min(len(ranges), _THREADS)) as pool:
                list(pool.map(read_range, ranges))
        return data

    def mean_record_bytes(self) -> float:
        """Return the mean size of the records of the split's files, in bytes."""
        return self._places.mean_record_bytes()

    def describe(self, example: int) -> str:
        """Return file, record and offset of an example, for messages."""
        return self._places.describe(example)

    def _read_bytes(self, part: ByteRange) -> bytes:
        path = self._places.paths[part.file]
        try:
            with storage_of(path).reading(path) as read_at:
                return read_at(part.start, part.end - part.start)
        except OSError as error:
            raise RecordError(
                f"A split's files are readable; {path} is not: {error}. "
                "Restore the file or prepare the dataset again."
            ) from error

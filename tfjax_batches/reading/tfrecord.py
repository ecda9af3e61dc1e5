# SPDX-License-Identifier: Apache-2.0
"""Random access to the records of TFRecord files on this machine, by memory map."""

import functools
import mmap

import numpy as np
import numpy.typing as npt

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.framing import FRAME_BYTES, ChecksumError, FrameError, unpack_frames
from tfjax_batches.reading.open_files import OpenFiles
from tfjax_batches.reading.record_index import RecordIndex, index_paths, open_index, split_stem
from tfjax_batches.reading.split import Split

# Pages of a map that were touched count as memory of the process, up to the whole dataset. They are
# let go after so many bytes, and come back from the page cache at a few µs per 64 KB.
_MAPPED_BYTES = 2**24


class TFRecordPlaces:
    """Where the records of a split lie: file, first byte and end. Indexed on first use.

    Args:
        source: The split.
    """

    def __init__(self, source: Split) -> None:
        self._source = source
        files = {r.path: r.records_in_file for r in source.ranges}
        numbers = {path: number for number, path in enumerate(files)}
        self._files = files
        self.paths = list(files)
        self._file_of_range = np.array([numbers[r.path] for r in source.ranges], np.int64)

    def locate(self, examples: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return number in `paths`, first byte and end of each example, each int64[n].

        Raises:
            RecordError: A file is missing, or does not hold its records.
        """
        of_range, records = self._source.locate(examples)
        files = self._file_of_range[of_range]
        return (files, *self._index.extents(files, records))

    def mean_record_bytes(self) -> float:
        """Return the mean size of the records of the split's files, in bytes."""
        file_ends = self._index.offsets[self._index.bases + list(self._files.values())]
        return max(1.0, float(file_ends.sum()) / sum(self._files.values()) - FRAME_BYTES)

    def describe(self, example: int) -> str:
        """Return file, record and offset of an example, for messages."""
        of_range, records = self._source.locate(np.array([example]))
        path = self.paths[self._file_of_range[of_range[0]]]
        start = self.locate(np.array([example]))[1][0]
        return f"record {records[0]} of {path}, at byte {start}"

    def error(self, example: int, why: FrameError | str) -> RecordError:
        """Return the error of an example that cannot be read."""
        place = self.describe(example)
        if isinstance(why, ChecksumError):
            return RecordError(
                f"A record's {why} match their stored checksum; those of {place}, do not. Restore "
                "the file or prepare the dataset again; verify_crc=False reads it as it is."
            )
        path = self.paths[self.locate(np.array([example]))[0][0]]
        kept = " and ".join(index_paths(split_stem(path)))
        return RecordError(
            f"The index tells where each record lies; by it there is {place}, but {why}. If the "
            "file was changed, restore it or prepare the dataset again; if not, the index is "
            f"wrong: delete {kept}."
        )

    @functools.cached_property
    def _index(self) -> RecordIndex:
        return open_index(self._files)


class TFRecordReader:
    """Reads the records of a split by example index, through memory maps.

    Safe to use from many threads at a time. Files are mapped on first use.

    Args:
        source: Where the records are.
        verify_crc: Check each record's checksum.
    """

    def __init__(self, source: Split, *, verify_crc: bool = True) -> None:
        self._places = TFRecordPlaces(source)
        self._verify_crc = verify_crc
        self._maps = OpenFiles(self._map_file)
        self._bytes_read = 0

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the stored bytes of each example, object[n].

        Raises:
            RecordError: A file is missing or damaged; names file, record and offset.
        """
        files, starts, ends = self._places.locate(examples)
        maps = {file: self._open_whole(file) for file in set(files.tolist())}
        places = zip(files.tolist(), starts.tolist(), ends.tolist(), strict=True)
        frames = [maps[file][start:end] for file, start, end in places]
        try:
            data = unpack_frames(frames, ends - starts, verify_crc=self._verify_crc)
        except FrameError as error:
            raise self._places.error(int(examples[error.member]), error) from error
        self._let_pages_go(int((ends - starts).sum()))
        return np.fromiter(data, object, len(data))

    def mean_record_bytes(self) -> float:
        """Return the mean size of the records of the split's files, in bytes."""
        return self._places.mean_record_bytes()

    def describe(self, example: int) -> str:
        """Return file, record and offset of an example, for messages."""
        return self._places.describe(example)

    def _let_pages_go(self, bytes_read: int) -> None:
        # Without a lock: a lost addition delays it a little.
        self._bytes_read += bytes_read
        if self._bytes_read >= _MAPPED_BYTES:
            self._bytes_read = 0
            for mapped in self._maps.all_open():
                mapped.madvise(mmap.MADV_DONTNEED)

    def _open_whole(self, number: int) -> mmap.mmap:
        """Return the map of a file; not if it was cut since: to read beyond its end kills us."""
        mapped = self._maps[number]
        if mapped.size() < len(mapped):
            raise RecordError(
                "A split's files stay as they are while they are read; "
                f"{self._places.paths[number]} was cut from {len(mapped)} to {mapped.size()} "
                "bytes. Restore the file or prepare the dataset again."
            )
        return mapped

    def _map_file(self, number: int) -> mmap.mmap:
        path = self._places.paths[number]
        try:
            with open(path, "rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            raise RecordError(
                f"A split's files are readable; {path} is not: {error}. "
                "Restore the file or prepare the dataset again."
            ) from error

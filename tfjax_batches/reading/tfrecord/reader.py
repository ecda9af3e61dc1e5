# SPDX-License-Identifier: Apache-2.0
"""Random access to the records of TFRecord files: the index says where, a file gives the bytes."""

import functools
import os

import numpy as np
import numpy.typing as npt

from tfjax_batches.config.reading import Reading
from tfjax_batches.errors import RecordError, UnsupportedError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.file_errors import RESTORE
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.split import Split
from tfjax_batches.reading.storage import is_network_mount, is_remote
from tfjax_batches.reading.tfrecord.frames import FRAME_BYTES, FrameError, unpack_frames
from tfjax_batches.reading.tfrecord.mapped_files import MappedFiles
from tfjax_batches.reading.tfrecord.range_files import RangeFiles
from tfjax_batches.reading.tfrecord.record_index import RecordIndex, open_index


class TFRecordReader:
    """Reads the records of a split by example index. See `RecordReader`."""

    def __init__(self, split: Split, options: ReaderOptions) -> None:
        self._split = split
        self._options = options
        self._num_records = {r.path: r.records_in_file for r in split.ranges}
        self._paths = list(self._num_records)
        numbers = {path: number for number, path in enumerate(self._paths)}
        self._file_of_range = np.array([numbers[r.path] for r in split.ranges], np.int64)
        if options.reading is Reading.MAP and is_remote(self._paths[0]):
            raise UnsupportedError(
                "reading='map' maps files of this machine into memory; "
                f"{self._paths[0]} is on another file system. Leave reading out."
            )

    def open(self) -> None:
        """Load the index of the files, or scan them for it."""
        _ = self._index

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the stored bytes of each example, object[n]."""
        files, starts, ends = self._locate(examples)
        frames = self._files.read(files, starts, ends)
        try:
            data = unpack_frames(frames, ends - starts, verify_crc=self._options.verify_crc)
        except FrameError as error:
            raise RecordError(
                "A record must be where the index says, and match its stored checksums; "
                f"{self.describe(int(examples[error.member]))}: {error}. {RESTORE} If the file is "
                f"as it was written, delete its index, {self.index_location()}. "
                "verify_crc=False ignores checksums."
            ) from error
        return np.fromiter(data, object, len(data))

    def reads_ranges(self) -> bool:
        """Return whether files are read in ranges, not through memory maps."""
        return isinstance(self._files, RangeFiles)

    def mean_record_bytes(self) -> float:
        """Return the mean size of the records of the split's files, in bytes, at least 1."""
        num_records = list(self._num_records.values())
        file_ends = self._index.offsets[self._index.bases + num_records]
        return max(1.0, float(file_ends.sum()) / sum(num_records) - FRAME_BYTES)

    def describe(self, example: int) -> str:
        """Return record, file and offset of an example, for messages."""
        _, (record,) = self._split.locate(np.array([example]))
        (file,), (start,), _ = self._locate(np.array([example]))
        return f"record {record} of {self._paths[file]}, at byte {start}"

    def index_location(self) -> str:
        """Return the paths of the index files."""
        return ", ".join(self._index.paths) or "memory only: no folder for it can be written"

    def _locate(self, examples: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return file, first byte and the byte after the last of each example, each int64[n]."""
        of_range, records = self._split.locate(examples)
        files = self._file_of_range[of_range]
        return (files, *self._index.extents(files, records))

    @functools.cached_property
    def _files(self) -> RangeFiles | MappedFiles:
        mode, path = self._options.reading, self._paths[0]
        is_far = is_remote(path) or is_network_mount(os.path.dirname(path) or ".")
        if mode is Reading.RANGE or (mode is Reading.AUTO and is_far):
            return RangeFiles(self._paths, self._options.pool, self._options.cache)
        return MappedFiles(self._paths)

    @functools.cached_property
    def _index(self) -> RecordIndex:
        return open_index(self._num_records, self._options.part)

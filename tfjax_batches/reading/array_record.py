# SPDX-License-Identifier: Apache-2.0
"""Random access to the records of ArrayRecord files, by the format's own reader.

The files hold their own index and checksums, which that reader always checks. It needs files of
this machine, so those from afar are copied whole when they are first read.
"""

import functools
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from absl import logging
from array_record.python import array_record_module

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.cache_file import file_key
from tfjax_batches.reading.chunk_cache import ChunkCache
from tfjax_batches.reading.file_errors import RESTORE, unreadable_file, wrong_records
from tfjax_batches.reading.open_files import OpenFiles
from tfjax_batches.reading.reader_options import ReaderOptions
from tfjax_batches.reading.split import FileRange, Split
from tfjax_batches.reading.storage import FILE_ERRORS, file_stat, is_network_mount, is_remote

# What the format's documentation advises for random access.
_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"


class ArrayRecordReader:
    """Reads the records of a split by example index, one call a file. See `RecordReader`."""

    def __init__(self, split: Split, options: ReaderOptions) -> None:
        # Of these only the cache counts: the format's reader always checks, and needs a path.
        self._split = split
        folder = os.path.dirname(split.ranges[0].path) or "."
        copies = options.cache
        if copies is None and is_remote(folder):
            temporary = tempfile.mkdtemp(prefix="tfjax_batches")
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
            copies = ChunkCache(temporary, 2**63)
        elif copies is not None and not is_remote(folder) and not is_network_mount(folder):
            copies = None
        self._files = OpenFiles(functools.partial(_open_file, split.ranges, copies))

    def open(self) -> None:
        """Open each file and check that it has its records."""
        for index in range(len(self._split.ranges)):
            _ = self._files[index]

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        """Return the stored bytes of each example, object[n]."""
        of_range, records = self._split.locate(examples)
        data = np.empty(len(examples), object)
        for index in np.unique(of_range).tolist():
            members = np.flatnonzero(of_range == index)
            found = self._read_file(index, records[members].tolist())
            data[members] = np.fromiter(found, object, len(found))
        return data

    def reads_ranges(self) -> bool:
        """Return False: files from afar are copied whole."""
        return False

    def mean_record_bytes(self) -> float:
        """Return the mean size of the records in the split's first file, as stored."""
        first = self._split.ranges[0]
        size = file_key(first.path, first.records_in_file).size
        return max(1.0, size / first.records_in_file)

    def describe(self, example: int) -> str:
        """Return record and file of an example, for messages."""
        (index,), (record,) = self._split.locate(np.array([example]))
        return f"record {record} of {self._split.ranges[index].path}"

    def index_location(self) -> str:
        """Return that the index is in the files."""
        return "the files themselves"

    def _read_file(self, index: int, records: list[int]) -> list[bytes]:
        try:
            data: list[bytes] = self._files[index].read(records)
        except RuntimeError as error:
            if len(records) > 1:  # find the damaged one
                return [self._read_file(index, [record])[0] for record in records]
            raise RecordError(
                f"A record must match its stored checksum; record {records[0]} of "
                f"{self._split.ranges[index].path} cannot be read: {error}. {RESTORE}"
            ) from error
        return data


def _open_file(
    ranges: Sequence[FileRange], copies: ChunkCache | None, index: int
) -> array_record_module.ArrayRecordReader:
    path, expected = ranges[index].path, ranges[index].records_in_file
    try:
        near = path
        if copies is not None:
            size, modified = file_stat(path)
            copy = functools.partial(tf.io.gfile.copy, path)
            near = copies.copy_of(f"{path} {size} {modified}", size, copy)
        open(near, "rb").close()  # the format's reader does not say why it cannot open a file
        reader = array_record_module.ArrayRecordReader(near, _OPTIONS)
    except (*FILE_ERRORS, RuntimeError) as error:
        raise unreadable_file(path, error) from error
    if index == 0 and "group_size:1," not in f"{reader.writer_options_string()},":
        logging.warning(
            "tfjax_batches: to read one record of %s, all records of its group are decoded; it was "
            "written with %s. Write it with group_size:1.",
            path,
            reader.writer_options_string(),
        )
    if reader.num_records() != expected:
        raise wrong_records(path, expected, f"its own index counts {reader.num_records()}")
    return reader

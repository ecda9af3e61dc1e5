# SPDX-License-Identifier: Apache-2.0
"""Reading every record of a split, to find those that are damaged."""

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.formats import RecordReader, open_reader
from tfjax_batches.reading.split import FileRange, Split

_THREADS = 8  # they wait for storage, and checksums are computed side by side
_RECORDS_AT_ONCE = 256


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """What was found in one file.

    Attributes:
        path: The file.
        good: Records that are as they were written.
        unchecked: Records that could not be looked for: where the file has not those that the
            dataset's metadata counts, there is one error for all of them.
        errors: One for each other record, or one for all that are unchecked.
    """

    path: str
    good: int
    unchecked: int
    errors: tuple[RecordError, ...]


def check_files(source: Split, on_records: Callable[[int], object]) -> Iterator[FileCheck]:
    """Yield what is found in each file of a split, in order.

    Args:
        source: The split.
        on_records: Called with the number of records that were looked at, again and again, from
            several threads.
    """
    whole = open_reader(source)
    try:
        whole.mean_record_bytes()  # finds all records, side by side, with a progress bar
    except RecordError:
        readers = [_open_alone(source, part) for part in source.ranges]
        starts = np.zeros(len(source.ranges), np.int64)
    else:
        readers = [lambda: whole] * len(source.ranges)
        starts = np.cumsum([0, *(part.take for part in source.ranges)])[:-1]

    def check(part: FileRange, open_it: Callable[[], RecordReader], start: int) -> FileCheck:
        try:
            reader = open_it()
            reader.mean_record_bytes()  # finds the records of a file that is opened alone
        except RecordError as error:
            on_records(part.take)
            return FileCheck(path=part.path, good=0, unchecked=part.take, errors=(error,))
        errors: list[RecordError] = []
        for first in range(start, start + part.take, _RECORDS_AT_ONCE):
            stop = min(first + _RECORDS_AT_ONCE, start + part.take)
            errors += _find_bad(reader, np.arange(first, stop))
            on_records(stop - first)
        # Of a file that cannot be opened each record gives the same error.
        distinct = {str(error): error for error in errors}
        return FileCheck(
            path=part.path,
            good=part.take - len(errors),
            unchecked=len(errors) if len(distinct) < len(errors) else 0,
            errors=tuple(distinct.values()),
        )

    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            yield from pool.map(check, source.ranges, readers, starts.tolist())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _open_alone(source: Split, part: FileRange) -> Callable[[], RecordReader]:
    """Return what opens one file, for a split of which others are damaged."""
    return lambda: open_reader(dataclasses.replace(source, ranges=(part,)))


def _find_bad(reader: RecordReader, examples: Int64Array) -> list[RecordError]:
    """Return an error for each of the examples that cannot be read."""
    try:
        reader.read(examples)
    except RecordError as error:
        if len(examples) == 1:
            return [error]
    else:
        return []
    return [error for example in examples for error in _find_bad(reader, example[None])]

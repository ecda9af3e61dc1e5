# SPDX-License-Identifier: Apache-2.0
"""Reading every record of a split to find the damaged ones."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.formats import RecordReader, open_reader
from tfjax_batches.reading.split import FileRange, Split

_THREADS = 8  # they wait for storage, and compute checksums in parallel
_RECORDS_AT_ONCE = 256


def check_files(
    split: Split, on_records: Callable[[int], object]
) -> Iterator[tuple[int, list[RecordError]]]:
    """Read all records of a split, file by file.

    Args:
        split: Where the records are.
        on_records: Called with the number of records of each part that was checked, from several
            threads.

    Yields:
        For each of the split's ranges, in order: the number of intact records, and an error for
        each other one, or a single error if the file cannot be opened.
    """
    # Indexes all files at once, with a progress bar. A file that fails here fails again below,
    # where each is opened by itself.
    with contextlib.suppress(RecordError):
        open_reader(split).open()

    def check(part: FileRange) -> tuple[int, list[RecordError]]:
        reader = open_reader(dataclasses.replace(split, ranges=(part,)))
        try:
            reader.open()
        except RecordError as error:
            on_records(part.take)
            return 0, [error]
        errors: list[RecordError] = []
        for first in range(0, part.take, _RECORDS_AT_ONCE):
            examples = np.arange(first, min(first + _RECORDS_AT_ONCE, part.take))
            errors += _find_errors(reader, examples)
            on_records(len(examples))
        return part.take - len(errors), errors

    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(check, split.ranges)


def _find_errors(reader: RecordReader, examples: Int64Array) -> list[RecordError]:
    """Return an error for each of the examples that cannot be read."""
    try:
        reader.read(examples)
    except RecordError as error:
        if len(examples) == 1:
            return [error]
        return [error for example in examples for error in _find_errors(reader, example[None])]
    return []

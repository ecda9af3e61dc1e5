# SPDX-License-Identifier: Apache-2.0
"""Reading every record of a split to find the damaged ones."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.bad_record import DECODE_FAILURES, undecodable_record
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader, open_reader
from tfjax_batches.reading.split import FileRange, Split

_THREADS = 8  # they wait for storage, and compute checksums in parallel
_RECORDS_AT_ONCE = 256
_DECODED_AT_ONCE = 16  # images may be large


def check_files(
    split: Split, on_records: Callable[[int], object], *, decode: bool = False
) -> Iterator[tuple[int, list[RecordError]]]:
    """Read all records of a split, file by file.

    Args:
        split: Where the records are.
        on_records: Called with the number of records of each part that was checked, from several
            threads.
        decode: Whether to decode every example too.

    Yields:
        For each of the split's ranges, in order: the number of intact records, and an error for
        each other one, or a single error if the file cannot be opened.
    """
    # Indexes all files at once, with a progress bar. A file that fails here fails again below,
    # where each is opened by itself.
    with contextlib.suppress(RecordError):
        open_reader(split).open()
    check_group = _decoding_check(split) if decode else _check_read
    at_once = _DECODED_AT_ONCE if decode else _RECORDS_AT_ONCE

    def check(part: FileRange) -> tuple[int, list[RecordError]]:
        reader = open_reader(dataclasses.replace(split, ranges=(part,)))
        try:
            reader.open()
        except RecordError as error:
            on_records(part.take)
            return 0, [error]
        errors: list[RecordError] = []
        for first in range(0, part.take, at_once):
            examples = np.arange(first, min(first + at_once, part.take))
            errors += _find_errors(check_group, reader, examples)
            on_records(len(examples))
        return part.take - len(errors), errors

    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(check, split.ranges)


_CheckGroup = Callable[[RecordReader, Int64Array], object]
"""Raises RecordError if any of some examples is damaged."""


def _check_read(reader: RecordReader, examples: Int64Array) -> None:
    reader.read(examples)


def _decoding_check(split: Split) -> _CheckGroup:
    """Return a function that decodes examples, at most `_DECODED_AT_ONCE`."""
    decoder = Decoder(split.features, None, split.name)
    signature = [tf.TensorSpec([_DECODED_AT_ONCE], tf.string)]
    decode = tf.function(decoder.decode, input_signature=signature, autograph=False)

    def check(reader: RecordReader, examples: Int64Array) -> None:
        # The same examples again fill the last group, so that one graph serves all groups.
        records = tf.constant(list(reader.read(np.resize(examples, _DECODED_AT_ONCE))))
        try:
            decode(records)
        except DECODE_FAILURES as error:
            where = reader.describe(int(examples[0]))
            raise undecodable_record(where, records[:1], decoder, error) from error

    return check


def _find_errors(
    check_group: _CheckGroup, reader: RecordReader, examples: Int64Array
) -> list[RecordError]:
    """Return an error for each of the examples that cannot be read or decoded."""
    try:
        check_group(reader, examples)
    except RecordError as error:
        if len(examples) == 1:
            return [error]
        return [e for example in examples for e in _find_errors(check_group, reader, example[None])]
    return []

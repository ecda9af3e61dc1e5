# SPDX-License-Identifier: Apache-2.0
"""Which examples of a split a filter selects: found by one scan, and saved for later runs.

Owns the files of selected ids. A file holds the ids for one filter and one split; its header names
the dataset, the ranges, the filter with its function, and the data files with size, modification
time and number of records. A file is used only if all of its header matches.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from tfjax_batches.errors import ConfigError, SplitError
from tfjax_batches.features.paths import path_text
from tfjax_batches.pipeline.diagnose import find_failure
from tfjax_batches.pipeline.groups import plan_group_sizes
from tfjax_batches.pipeline.weak_call import WeakCall
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.selection import FilteredSplit, digest_ids
from tfjax_batches.preprocess.filter import FilterExamples, TracedFilter, trace_filter
from tfjax_batches.reading.bad_record import FAILURES, find_bad_record
from tfjax_batches.reading.cache_file import (
    cache_paths,
    file_key,
    load_cached,
    save_cached,
    split_stem,
)
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader
from tfjax_batches.reading.retries import RetryingReader
from tfjax_batches.reading.split import Split

_FORMAT = "tfjax_batches selection 1"
_PROGRESS_AFTER_SECONDS = 1.5
_GROUP_ROWS = 1024


def find_selection(
    filter: FilterExamples, split: Split, reader: RecordReader, *, uses_files: bool = True
) -> FilteredSplit:
    """Return the examples of a split that a filter selects.

    Args:
        filter: The filter.
        split: The split.
        reader: Access to the split's records.
        uses_files: Take the result from a file of an earlier run, or save it there.

    Raises:
        FeatureError: The filter names a feature that does not exist.
        ConfigError: The filter's function is not valid, or fails on an example.
        SplitError: The filter selects no example.
        RecordError: A record cannot be read or decoded.
    """
    traced = trace_filter(filter, Decoder(split.features, None, split.name).specs, split.name)
    if uses_files:
        ids, digest = _load_or_scan(filter, traced, split, reader)
    else:
        ids = _scan(filter.name, traced, split, reader)
        digest = digest_ids(ids)
    if len(ids) == 0:
        raise SplitError(
            f"A run must have an example; filter {filter.name!r} selects none of the "
            f"{split.num_examples} of split={split.split!r} of {split.name}. Change its function, "
            "or leave out filter."
        )
    return FilteredSplit(name=filter.name, ids=ids, num_in_split=split.num_examples, digest=digest)


def _load_or_scan(
    filter: FilterExamples, traced: TracedFilter, split: Split, reader: RecordReader
) -> tuple[Int64Array, str]:
    # Before anything is read, so that the next run notices files that change during the scan.
    header = _header(filter, split, traced)
    paths = selection_paths(filter, split)
    if (found := _load(paths, header)) is not None:
        return found
    ids = _scan(filter.name, traced, split, reader)
    header["ids"] = digest_ids(ids)
    save_cached(paths, f"the selection of filter {filter.name!r}", header, ids)
    return ids, header["ids"]


def selection_paths(filter: FilterExamples, split: Split) -> list[str]:
    """Return the files that may hold a filter's ids, in the order in which to look."""
    features = [path_text(name) for name in filter.features]
    identity = json.dumps([split.name, split.resolved, features, filter.name])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return cache_paths(split_stem(split.ranges[0].path), f"selection-{digest}")


def _header(filter: FilterExamples, split: Split, traced: TracedFilter) -> dict[str, Any]:
    """Return the header of a file of ids, without the digest of the ids."""
    files = {r.path: r.records_in_file for r in split.ranges}
    return {
        "format": _FORMAT,
        "dataset": split.name,
        "examples": list(split.resolved),
        "filter": filter.name,
        "features": [path_text(path) for path in traced.specs],
        "files": [list(dataclasses.astuple(file_key(*file))) for file in files.items()],
        # Another release may trace the same function to another graph.
        "function": [traced.digest, tf.__version__],
    }


def _load(paths: list[str], header: Mapping[str, Any]) -> tuple[Int64Array, str] | None:
    """Return the ids, int64[selected], of a file with that header and their digest, or None."""
    for path in paths:
        found, ids = load_cached(path, _FORMAT) or ({}, np.empty(0, np.int64))
        differing = {name for name in header if found.get(name) != header[name]}
        if found.get("ids") != digest_ids(ids) or not differing <= {"function"}:
            continue
        if not differing:
            return ids, found["ids"]
        logging.warning(
            "tfjax_batches: filter %r was used on %s with another function or another release of "
            "TensorFlow; all examples are scanned again. Give another function another name.",
            header["filter"],
            header["dataset"],
        )
    return None


def _scan(name: str, traced: TracedFilter, split: Split, reader: RecordReader) -> Int64Array:
    """Return the ids of the selected examples; show progress where it takes long."""
    reader.open()
    decoder = Decoder(split.features, list(traced.specs), split.name)
    count = split.num_examples
    rows = min(count, plan_group_sizes(_GROUP_ROWS, reader.mean_record_bytes()).group_rows)

    retrying = RetryingReader(reader)

    def read(group: np.int64) -> Any:
        # The last group repeats the last example, so that one graph serves all groups.
        examples = np.minimum(int(group) * rows + np.arange(rows), count - 1)
        return retrying.read(examples, f"group {group} of filter {name!r}")

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def select(group: tf.Tensor) -> tf.Tensor:
        records = tf.ensure_shape(tf.numpy_function(WeakCall(read), [group], tf.string), [rows])
        return traced(decoder.decode(records))

    groups = tf.data.Dataset.range(-(-count // rows)).map(select, tf.data.AUTOTUNE)
    selected = np.zeros(len(groups) * rows, bool)
    bar = tqdm(
        total=count,
        desc=f"tfjax_batches: filter {name!r}",
        unit=" examples",
        delay=_PROGRESS_AFTER_SECONDS,
        leave=False,
    )
    first = 0
    with bar as progress:
        try:
            for part in groups.as_numpy_iterator():
                selected[first : first + rows] = part
                first += rows
                progress.update(rows)
        except FAILURES as error:
            examples = np.arange(first, min(first + rows, count))
            if (cause := _explain(name, traced, decoder, reader, examples)) is None:
                raise
            raise cause from error
    return np.flatnonzero(selected[:count])


def _explain(
    name: str, traced: TracedFilter, decoder: Decoder, reader: RecordReader, examples: Int64Array
) -> Exception | None:
    """Return the error of the first example that the filter fails on or that cannot be read."""
    if (bad := find_bad_record(examples, reader, decoder)) is not None:
        return bad
    retrying, no_seeds = RetryingReader(reader), np.zeros((1, 0, 2), np.int32)
    failure = find_failure(
        {name: lambda features, seeds: traced(features)},
        decoder,
        (
            (retrying.read(example, f"example {example[0]}"), example, no_seeds)
            for example in examples[:, None]
        ),
    )
    if failure is None:
        return None
    example = int(failure.examples[0])
    return ConfigError(
        f"A filter must return True or False for every example; filter {name!r} fails on example "
        f"{example}, which is {reader.describe(example)}: {failure.reason} Fix the function."
    )

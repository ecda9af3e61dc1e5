# SPDX-License-Identifier: Apache-2.0
"""Which examples of a split a filter selects: found by one scan, and saved for later runs.

Owns the files of selected ids. A file holds the ids for one filter and one split; its header names
the dataset, the ranges, the filter with its function, and the data files with size, modification
time and number of records. A file is used only if all of its header matches.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from tfjax_batches.errors import ConfigError, SplitError
from tfjax_batches.pipeline.diagnose import FAILURES, find_bad_record, find_failure
from tfjax_batches.pipeline.groups import plan_group_sizes
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.selection import Selection, digest_ids
from tfjax_batches.preprocess.filter import FilterExamples, TracedFilter, trace_filter
from tfjax_batches.reading.cache_file import (
    cache_paths,
    file_key,
    load_cached,
    save_cached,
    split_stem,
)
from tfjax_batches.reading.decode import Decoder
from tfjax_batches.reading.formats import RecordReader
from tfjax_batches.reading.split import Split

_FORMAT = "tfjax_batches selection 1"
_PROGRESS_AFTER_SECONDS = 1.5
_GROUP_ROWS = 128
_MOST_TASKS = 2**12  # a waiting task takes a few hundred bytes; each is a step of the progress bar


def find_selection(filter: FilterExamples, split: Split, reader: RecordReader) -> Selection:
    """Return the examples of a split that a filter selects, from a saved file or by a scan.

    Args:
        filter: The filter.
        split: The split.
        reader: Access to the split's records.

    Raises:
        FeatureError: The filter names a feature that does not exist.
        ConfigError: The filter's function is not valid, or fails on an example.
        SplitError: The filter selects no example.
        RecordError: A record cannot be read or decoded.
    """
    traced = _trace(filter, split)
    # Before anything is read, so that the next run notices files that change during the scan.
    header = _header(filter, split, traced)
    paths = selection_paths(filter, split)
    if (found := _load(paths, header, split.num_examples)) is None:
        ids = np.flatnonzero(_Scan(filter, split, reader, traced).run())
        found = ids, digest_ids(ids)
        header["ids"] = found[1]
        save_cached(paths, f"the selection of filter {filter.name!r}", header, ids)
    return _make_selection(filter, split, *found)


def scan_selection(filter: FilterExamples, split: Split, reader: RecordReader) -> Selection:
    """Return the examples of a split that a filter selects, by a scan, and save nothing.

    Args:
        filter: The filter.
        split: The split.
        reader: Access to the split's records.

    Raises:
        BatchesError: As for `find_selection`.
    """
    ids = np.flatnonzero(_Scan(filter, split, reader, _trace(filter, split)).run())
    return _make_selection(filter, split, ids, digest_ids(ids))


def _trace(filter: FilterExamples, split: Split) -> TracedFilter:
    specs = Decoder(split.features, None, split.name).specs
    return trace_filter(filter, specs, split.name)


def _make_selection(
    filter: FilterExamples, split: Split, ids: Int64Array, digest: str
) -> Selection:
    if len(ids) == 0:
        raise SplitError(
            f"A run must have an example; filter {filter.name!r} selects none of the "
            f"{split.num_examples} of split={split.split!r} of {split.name}. Change its function, "
            "or leave out filter."
        )
    return Selection(name=filter.name, ids=ids, num_in_split=split.num_examples, digest=digest)


def selection_paths(filter: FilterExamples, split: Split) -> list[str]:
    """Return the files that may hold a filter's ids, in the order in which to look."""
    identity = json.dumps([split.name, split.resolved, filter.features, filter.name])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return cache_paths(split_stem(split.ranges[0].path), f"selection-{digest}")


def _header(filter: FilterExamples, split: Split, traced: TracedFilter) -> dict[str, Any]:
    """Return the header of a file of ids, without the digest of the ids."""
    files = {r.path: r.records_in_file for r in split.ranges}
    keys = [file_key(path, count) for path, count in files.items()]
    return {
        "format": _FORMAT,
        "dataset": split.name,
        "examples": list(split.resolved),
        "filter": filter.name,
        "features": list(filter.features),
        "files": [list(dataclasses.astuple(key)) for key in keys],
        # Another release may trace the same function to another graph.
        "function": [traced.digest, tf.__version__],
    }


def _load(
    paths: Sequence[str], header: Mapping[str, Any], num_examples: int
) -> tuple[Int64Array, str] | None:
    """Return ids, int64[selected], and their digest from a file with that header, or None."""
    is_of_another_function = False
    for path in paths:
        if (loaded := load_cached(path, _FORMAT)) is None:
            continue
        found, ids = loaded
        differing = {name for name in header if found.get(name) != header[name]}
        if not differing <= {"function"} or found.get("ids") != digest_ids(ids):
            continue
        if not _are_ids(ids, num_examples):
            continue
        if not differing:
            return ids, found["ids"]
        is_of_another_function = True
    if is_of_another_function:
        logging.warning(
            "tfjax_batches: filter %r was used on %s with another function or another release of "
            "TensorFlow; all examples are scanned again. Give another function another name.",
            header["filter"],
            header["dataset"],
        )
    return None


def _are_ids(ids: Int64Array, num_examples: int) -> bool:
    """Return whether ids, int64[n], increase and belong to a split of so many examples."""
    if len(ids) == 0:
        return True
    return bool(ids[0] >= 0 and ids[-1] < num_examples and np.all(ids[1:] > ids[:-1]))


class _Scan:
    """Evaluates a filter on each example of a split once, in several threads."""

    def __init__(
        self, filter: FilterExamples, split: Split, reader: RecordReader, traced: TracedFilter
    ) -> None:
        self._name = filter.name
        self._traced = traced
        self._num_examples = split.num_examples
        self._reader = reader
        self._decoder = Decoder(split.features, filter.features, split.name)
        self._is_cancelled = False
        sizes = plan_group_sizes(_GROUP_ROWS, reader.mean_record_bytes())
        self._rows = min(sizes.group_rows, split.num_examples)
        # Traced here, before threads start.
        self._select = tf.function(
            lambda records: traced(self._decoder.decode(records)),
            input_signature=[tf.TensorSpec([self._rows], tf.string)],
            autograph=False,
        ).get_concrete_function()

    def run(self) -> npt.NDArray[np.bool_]:
        """Return bool[num_examples], True for selected examples; a long scan shows its progress.

        Raises:
            RecordError: A record cannot be read or decoded.
            ConfigError: The function fails on an example.
        """
        groups = -(-self._num_examples // self._rows)
        task_rows = self._rows * -(-groups // _MOST_TASKS)
        selected = np.zeros(self._num_examples, bool)
        with (
            ThreadPoolExecutor(os.cpu_count()) as pool,
            tqdm(
                total=self._num_examples,
                desc=f"tfjax_batches: filter {self._name!r}",
                unit=" examples",
                delay=_PROGRESS_AFTER_SECONDS,
                leave=False,
            ) as progress,
        ):
            tasks = [
                pool.submit(self._fill, selected[start : start + task_rows], start)
                for start in range(0, self._num_examples, task_rows)
            ]
            try:
                for task in tasks:
                    progress.update(task.result())
            except BaseException:
                self._is_cancelled = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return selected

    def _fill(self, selected: npt.NDArray[np.bool_], start: int) -> int:
        """Fill bool[n] for the n examples from `start` on; return n."""
        for first in range(0, len(selected), self._rows):
            if self._is_cancelled:
                break
            part = selected[first : first + self._rows]
            # The last group repeats the last example, so one graph serves all groups.
            examples = start + first + np.minimum(np.arange(self._rows), len(part) - 1)
            records = self._reader.read(examples)
            try:
                part[:] = self._select(tf.constant(records)).numpy()[: len(part)]
            except FAILURES as error:
                raise self._explain(examples[: len(part)], error) from error
        return len(selected)

    def _explain(self, examples: Int64Array, error: Exception) -> Exception:
        """Return the error of the first example that cannot be decoded or that the filter fails on.

        Args:
            examples: int64[n], the group that failed.
            error: TensorFlow's error, returned if no example fails by itself.
        """
        if (bad := find_bad_record(examples, self._reader, self._decoder)) is not None:
            return bad
        no_seeds = np.zeros((1, 0, 2), np.int32)
        failure = find_failure(
            {self._name: lambda features, seeds: self._traced(features)},
            self._decoder,
            ((example, self._reader.read(example), no_seeds) for example in examples[:, None]),
        )
        if failure is None:
            return error
        example = int(failure.examples[0])
        return ConfigError(
            f"A filter must return True or False for every example; filter {self._name!r} fails on "
            f"example {example}, which is {self._reader.describe(example)}: {failure.reason} "
            "Fix the function."
        )

# SPDX-License-Identifier: Apache-2.0
"""The examples of a split that a filter keeps: found once, and kept between runs.

Owns the files of kept ids, which are derived files. One holds the ids of one filter over one split;
its header names the dataset, the ranges, the filter and its function, and the files with size, time
of change and records. It is used only where all of that is as it was.
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
from tfjax_batches.pipeline.diagnose import find_bad_record
from tfjax_batches.pipeline.groups import plan_group_sizes
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.planning.selection import Selection, digest_ids
from tfjax_batches.preprocess.filter import FilterExamples, Predicate
from tfjax_batches.reading.cache_file import (
    cache_paths,
    file_key,
    load_cached,
    save_cached,
    split_stem,
)
from tfjax_batches.reading.formats import RecordReader
from tfjax_batches.reading.split import Split

_FORMAT = "tfjax_batches kept ids 1"
_PROGRESS_AFTER_SECONDS = 1.5
_GROUP_ROWS = 128
_MOST_TASKS = 2**12  # each a few hundred bytes until it is done, and a step of the progress bar


def find_selection(keep: FilterExamples, source: Split, reader: RecordReader) -> Selection:
    """Return which examples of a split a filter keeps, from the file of an earlier run or anew.

    Raises:
        FeatureError: The filter names a feature that is none.
        ConfigError: Its function is not what a filter takes, or fails on an example.
        SplitError: It keeps nothing.
        RecordError: A record cannot be read or decoded.
    """
    predicate = Predicate(keep, source)
    # Before anything is read: a file that changes meanwhile is noticed by the next run.
    header = _header(keep, source, predicate)
    paths = selection_paths(keep, source)
    if (found := _load(paths, header, source.num_examples)) is None:
        ids = np.flatnonzero(_Evaluation(keep, source, reader, predicate).run())
        found = ids, digest_ids(ids)
        header["ids"] = found[1]
        save_cached(paths, f"what {keep.name!r} keeps of {source.name}", header, [ids])
    ids, digest = found
    if len(ids) == 0:
        raise SplitError(
            f"A run has at least one example; filter={keep.name!r} keeps none of the "
            f"{source.num_examples} of split={source.split!r} of {source.name}. Mend its function, "
            "or leave keep out."
        )
    return Selection(name=keep.name, ids=ids, num_in_split=source.num_examples, digest=digest)


def selection_paths(keep: FilterExamples, source: Split) -> list[str]:
    """Return where the ids that a filter keeps may lie, in the order in which to look."""
    identity = json.dumps([source.name, source.resolved, keep.features, keep.name])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return cache_paths(split_stem(source.ranges[0].path), f"kept-{digest}")


def _header(keep: FilterExamples, source: Split, predicate: Predicate) -> dict[str, Any]:
    """Return what a file of kept ids says of itself, but for the digest of the ids."""
    files = {r.path: r.records_in_file for r in source.ranges}
    keys = [file_key(path, count) for path, count in files.items()]
    return {
        "format": _FORMAT,
        "dataset": source.name,
        "examples": list(source.resolved),
        "filter": keep.name,
        "features": list(keep.features),
        "files": [list(dataclasses.astuple(key)) for key in keys],
        # Another release may trace one function to another graph.
        "function": [predicate.digest, tf.__version__],
    }


def _load(
    paths: Sequence[str], header: Mapping[str, Any], num_examples: int
) -> tuple[Int64Array, str] | None:
    """Return ids, int64[kept], and digest of a file with that header; None: there is no such file.

    All ids are read once, to check them.
    """
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
            "tfjax_batches: filter=%r was used on %s with another function, or another release "
            "of TensorFlow; all examples are looked at again. Name what another function keeps by "
            "another name.",
            header["filter"],
            header["dataset"],
        )
    return None


def _are_ids(ids: Int64Array, num_examples: int) -> bool:
    """Whether ids, int64[n], are rising and those of a split of so many examples."""
    if len(ids) == 0:
        return True
    return bool(ids[0] >= 0 and ids[-1] < num_examples and np.all(ids[1:] > ids[:-1]))


class _Evaluation:
    """One look at each example of a split, by several threads."""

    def __init__(
        self, keep: FilterExamples, source: Split, reader: RecordReader, predicate: Predicate
    ) -> None:
        self._keep = keep
        self._num_examples = source.num_examples
        self._reader = reader
        self._predicate = predicate
        self._is_over = False
        sizes = plan_group_sizes(_GROUP_ROWS, reader.mean_record_bytes())
        self._rows = min(sizes.group_rows, source.num_examples)
        # Traced here: not by several threads at a time.
        self._keeps = tf.function(
            predicate, input_signature=[tf.TensorSpec([self._rows], tf.string)], autograph=False
        ).get_concrete_function()

    def run(self) -> npt.NDArray[np.bool_]:
        """Return which examples are kept, bool[num_examples]; with a progress bar, if it is long.

        Raises:
            RecordError: A record cannot be read or decoded.
            ConfigError: The function fails on an example.
        """
        groups = -(-self._num_examples // self._rows)
        task_rows = self._rows * -(-groups // _MOST_TASKS)
        kept = np.zeros(self._num_examples, bool)
        with (
            ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
            tqdm(
                total=self._num_examples,
                desc=f"tfjax_batches: finding what {self._keep.name!r} keeps",
                unit=" examples",
                delay=_PROGRESS_AFTER_SECONDS,
                leave=False,
            ) as progress,
        ):
            tasks = [
                pool.submit(self._fill, kept[start : start + task_rows], start)
                for start in range(0, self._num_examples, task_rows)
            ]
            try:
                for task in tasks:
                    progress.update(task.result())
            except BaseException:
                self._is_over = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return kept

    def _fill(self, kept: npt.NDArray[np.bool_], start: int) -> int:
        """Say of the examples from `start` on which are kept, in bool[n]; return n."""
        for first in range(0, len(kept), self._rows):
            if self._is_over:
                break
            part = kept[first : first + self._rows]
            # The last group is filled with the last example, so that one graph serves all.
            examples = start + first + np.minimum(np.arange(self._rows), len(part) - 1)
            records = self._reader.read(examples)
            try:
                part[:] = self._keeps(tf.constant(records)).numpy()[: len(part)]
            # TensorFlow quotes the bytes of a bad record, and may fail to make text of them.
            except (tf.errors.OpError, UnicodeDecodeError) as error:
                raise self._explain(examples[: len(part)], error) from error
        return len(kept)

    def _explain(self, examples: Int64Array, error: Exception) -> Exception:
        """Return the error of the first example that cannot be decoded or looked at."""
        predicate = self._predicate
        if (cause := find_bad_record(examples, self._reader, predicate.decoder)) is not None:
            return cause
        for example in examples:
            if (why := self._why_failing(self._reader.read(example[None]))) is not None:
                return ConfigError(
                    "FilterExamples.fn says of every example whether it is kept; that of "
                    f"{self._keep.name!r} fails on example {example}, which is "
                    f"{self._reader.describe(int(example))}: {why} Mend the function."
                )
        error.add_note(f"This is filter={self._keep.name!r}, on examples {examples}.")
        return error

    def _why_failing(self, record: npt.NDArray[np.object_]) -> str | None:
        """Return why the function fails on a record, object[1]; None: it does not."""
        if (why := self._predicate.why_failing(record)) is not None:
            return why
        # A graph checks more, such as the dtype that `tf.numpy_function` was told.
        try:
            self._keeps(tf.constant(record.repeat(self._rows)))
        except tf.errors.OpError as error:
            return error.message.splitlines()[0]
        return None

# SPDX-License-Identifier: Apache-2.0
"""From a split expression to the exact records that hold its examples.

Reads the dataset's metadata only. Holds at all times: example i of a split is the i-th record of
its ranges laid end to end.
"""

import dataclasses
import functools
import os
import textwrap

import numpy as np
import tensorflow_datasets as tfds

from tfjax_batches.errors import SplitError, nearest_hint
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.dataset import check_prepared


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """`take` records of a file after the first `skip`; by the metadata it has `records_in_file`."""

    path: str
    skip: int
    take: int
    records_in_file: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """The records of one split.

    Attributes:
        name: TFDS name with config and version, such as `"mnist/3.0.1"`.
        split: The split expression.
        resolved: The expression as absolute ranges, such as `"train[0:54000]"`.
        ranges: Where the records are, in the order of the split.
        features: TFDS's description of a record.
        file_format: TFDS's name of the format of the files.
    """

    name: str
    split: str
    resolved: tuple[str, ...]
    ranges: tuple[FileRange, ...]
    features: tfds.features.FeaturesDict
    file_format: str = "tfrecord"

    @property
    def num_examples(self) -> int:
        """Examples in the split."""
        return sum(r.take for r in self.ranges)

    def locate(self, examples: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the index into `ranges` and the record in that file of each example, int64[n]."""
        of_range = np.searchsorted(self._range_ends, examples, side="right")
        return of_range, examples + self._record_shifts[of_range]

    def describe_ranges(self) -> list[tuple[str, int, int]]:
        """Return (file name, first record, records) of each range, equal on all machines."""
        return [(os.path.basename(r.path), r.skip, r.take) for r in self.ranges]

    @functools.cached_property
    def _range_ends(self) -> Int64Array:
        return np.cumsum([r.take for r in self.ranges])

    @functools.cached_property
    def _record_shifts(self) -> Int64Array:
        """The record of an example in its file, less the example."""
        return np.array([r.skip + r.take for r in self.ranges]) - self._range_ends


def open_split(builder: tfds.core.DatasetBuilder, split: str) -> Split:
    """Return the records of a split.

    Raises:
        DatasetNotFoundError: The dataset is not prepared.
        SplitError: The split does not exist, is malformed, or is empty.
    """
    check_prepared(builder)
    info = _split_info(builder, split)
    ranges = tuple(
        FileRange(
            path=os.fspath(instruction.filename),
            skip=instruction.skip,
            take=instruction.take,
            records_in_file=instruction.examples_in_shard,
        )
        for instruction in info.file_instructions
        if instruction.take > 0
    )
    name = builder.info.full_name
    if not ranges:
        raise SplitError(
            f"A split must hold at least one example; {split!r} of {name} resolves to none. "
            f"{_known_splits(builder)}"
        )
    stored = builder.info.file_format  # None: written before TFDS had a choice
    return Split(
        name=name,
        split=split,
        resolved=_resolve(builder, split),
        ranges=ranges,
        features=builder.info.features,
        file_format="tfrecord" if stored is None else stored.value,
    )


def open_splits(builder: tfds.core.DatasetBuilder, split: str | None) -> list[Split]:
    """Return the records of one split, or if it is None, of each split that holds any."""
    if split is not None:
        return [open_split(builder, split)]
    check_prepared(builder)
    splits = builder.info.splits
    return [open_split(builder, name) for name in splits if splits[name].num_examples]


def _split_info(builder: tfds.core.DatasetBuilder, split: str) -> tfds.core.SplitInfo:
    known = builder.info.splits
    try:
        return known[split]
    except (KeyError, ValueError, AssertionError, TypeError) as error:
        bases = [part.split("[")[0].strip() for part in split.split("+")]
        hints = [nearest_hint(base, known) for base in bases if base not in known]
        raise SplitError(
            f"split must be a TFDS split expression; {split!r} does not exist in "
            f"{builder.info.full_name} ({textwrap.shorten(str(error), 120)}). "
            f"{' '.join([*hints, _known_splits(builder)])}"
        ) from error


def _resolve(builder: tfds.core.DatasetBuilder, split: str) -> tuple[str, ...]:
    splits = builder.info.splits
    resolved = []
    for part in tfds.core.ReadInstruction.from_spec(split).to_absolute(splits):
        end = splits[part.splitname].num_examples if part.to is None else part.to
        resolved.append(f"{part.splitname}[{part.from_ or 0}:{end}]")
    return tuple(resolved)


def _known_splits(builder: tfds.core.DatasetBuilder) -> str:
    counts = ", ".join(f"{s} ({info.num_examples})" for s, info in builder.info.splits.items())
    return f"Its splits, with their numbers of examples: {counts}; a part is 'train[:90%]'."

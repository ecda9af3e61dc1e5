# SPDX-License-Identifier: Apache-2.0
"""From a split expression to the exact records that hold its examples.

Reads the dataset's metadata only. Holds at all times: example i of a split is the i-th record of
its ranges laid end to end.
"""

import dataclasses
import functools
import os

import numpy as np
import tensorflow_datasets as tfds

from tfjax_batches.errors import SplitError, nearest_hint
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.dataset import check_prepared


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """Consecutive records of one file.

    Attributes:
        path: The file.
        skip: Records before the range.
        take: Records in the range.
        records_in_file: Records in the whole file, by the dataset's metadata.
    """

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
        return int(self._range_ends[-1]) if self.ranges else 0

    def locate(self, examples: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the index into `ranges` and the record in that file of each example.

        Args:
            examples: int64[n], indices in the split.

        Returns:
            Two arrays int64[n].
        """
        of_range = np.searchsorted(self._range_ends, examples, side="right")
        starts = self._range_ends - self._range_takes
        records = examples - starts[of_range] + self._range_skips[of_range]
        return of_range, records

    def describe_ranges(self) -> list[tuple[str, int, int]]:
        """Return (file name, first record, records) of each range, equal on all machines."""
        return [(os.path.basename(r.path), r.skip, r.take) for r in self.ranges]

    @functools.cached_property
    def _range_takes(self) -> Int64Array:
        return np.array([r.take for r in self.ranges], np.int64)

    @functools.cached_property
    def _range_skips(self) -> Int64Array:
        return np.array([r.skip for r in self.ranges], np.int64)

    @functools.cached_property
    def _range_ends(self) -> Int64Array:
        return np.cumsum(self._range_takes)


def open_split(builder: tfds.core.DatasetBuilder, split: str) -> Split:
    """Return the records of a split.

    Args:
        builder: The dataset's builder.
        split: A TFDS split expression.

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
    """Return the records of one split, or of each split that holds any.

    Args:
        builder: The dataset's builder.
        split: A TFDS split expression. None: all splits.

    Raises:
        BatchesError: As for `open_split`.
    """
    if split is not None:
        return [open_split(builder, split)]
    check_prepared(builder)
    splits = builder.info.splits
    return [open_split(builder, name) for name in splits if splits[name].num_examples]


def _split_info(builder: tfds.core.DatasetBuilder, split: str) -> tfds.core.SplitInfo:
    try:
        return builder.info.splits[split]
    except (KeyError, ValueError, AssertionError, TypeError) as error:
        known = builder.info.splits
        bases = [part.split("[")[0].strip() for part in split.split("+")]
        hint = "".join(f"{nearest_hint(base, known)} " for base in bases if base not in known)
        reason = str(error).strip("'\"").splitlines()[0][:120]
        raise SplitError(
            f"split must be a TFDS split expression; {split!r} does not exist in "
            f"{builder.info.full_name} ({reason}). {hint}{_known_splits(builder)}"
        ) from error


def _resolve(builder: tfds.core.DatasetBuilder, split: str) -> tuple[str, ...]:
    instructions = tfds.core.ReadInstruction.from_spec(split).to_absolute(builder.info.splits)
    return tuple(
        f"{part.splitname}[{part.from_ or 0}:"
        f"{builder.info.splits[part.splitname].num_examples if part.to is None else part.to}]"
        for part in instructions
    )


def _known_splits(builder: tfds.core.DatasetBuilder) -> str:
    counts = ", ".join(f"{s} ({info.num_examples})" for s, info in builder.info.splits.items())
    return f"Its splits, with their numbers of examples: {counts}; a part is 'train[:90%]'."

# SPDX-License-Identifier: Apache-2.0
"""From a split expression to the exact records that hold its examples.

Reads the dataset's metadata only. Holds at all times: example i of a split is the i-th record of
its ranges laid end to end.
"""

import dataclasses
import functools
import os
from collections.abc import Sequence

import numpy as np
import tensorflow_datasets as tfds

from tfjax_batches.errors import SplitError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.dataset import check_prepared
from tfjax_batches.reading.split_expression import ExampleRange, known_splits, resolve_split


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
        split: The split expression; of a split object of TFDS, the ranges that it resolves to,
            such as `"train[0:10]"`.
        resolved: The expression as absolute ranges, such as `"train[0:54000]"`.
        ranges: Where the records are, in the order of the split.
        features: TFDS's description of a record.
        file_format: TFDS's name of the format of the files.
        example_bytes: Mean size of its examples by the metadata; 0: not known.
    """

    name: str
    split: str
    resolved: tuple[str, ...]
    ranges: tuple[FileRange, ...]
    features: tfds.features.FeaturesDict
    file_format: str = "tfrecord"
    example_bytes: float = 0.0

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


def open_split(builder: tfds.core.DatasetBuilder, split: tfds.typing.SplitArg) -> Split:
    """Return the records of a split.

    Args:
        builder: The dataset.
        split: A split expression, or a split object of TFDS: a `ReadInstruction`, a sum of splits,
            an item of `tfds.even_splits`.

    Raises:
        DatasetNotFoundError: The dataset is not prepared.
        UnsupportedError: The dataset has no record files.
        SplitError: The split does not exist, is malformed, is empty, or TFDS would read other
            examples than it says.
    """
    check_prepared(builder)
    name, splits = builder.info.full_name, builder.info.splits
    resolved = resolve_split(splits, split, name)
    ranges = tuple(part for each in resolved for part in _find_files(each, splits))
    if not ranges:
        raise SplitError(
            f"A split must hold at least one example; {str(split)!r} of {name} resolves to none. "
            f"{known_splits(splits)}"
        )
    texts = tuple(map(str, resolved))
    return Split(
        name=name,
        split=str(split) if isinstance(split, str) else "+".join(texts),
        resolved=texts,
        ranges=ranges,
        features=builder.info.features,
        file_format=builder.info.file_format.value,
        example_bytes=_mean_bytes(resolved, splits),
    )


def open_splits(builder: tfds.core.DatasetBuilder, split: str | None) -> list[Split]:
    """Return the records of one split, or if it is None, of each split that holds any."""
    if split is not None:
        return [open_split(builder, split)]
    check_prepared(builder)
    splits = builder.info.splits
    return [open_split(builder, name) for name in splits if splits[name].num_examples]


def _mean_bytes(ranges: Sequence[ExampleRange], splits: tfds.core.SplitDict) -> float:
    sizes = np.array([each.stop - each.start for each in ranges])
    infos = [splits[each.split] for each in ranges]
    means = [info.num_bytes / max(1, info.num_examples) for info in infos]
    return float(np.average(means, weights=sizes))


def _find_files(examples: ExampleRange, splits: tfds.core.SplitDict) -> list[FileRange]:
    """Return where some examples are stored, in their order."""
    if examples.start == examples.stop:
        return []
    part = tfds.core.ReadInstruction(
        examples.split, from_=examples.start, to=examples.stop, unit="abs"
    )
    return [
        FileRange(
            path=os.fspath(instruction.filename),
            skip=instruction.skip,
            take=instruction.take,
            records_in_file=instruction.examples_in_shard,
        )
        for instruction in splits[part].file_instructions
    ]

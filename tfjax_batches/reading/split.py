# SPDX-License-Identifier: Apache-2.0
"""From a dataset's name and a split expression to the exact records that hold the examples."""

import dataclasses
import enum
import functools
import os
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

# Imported for its effect on TFDS: the name "digits" is known from here on.
from tfjax_batches.datasets import digits as _digits  # noqa: F401
from tfjax_batches.errors import (
    ConfigError,
    DatasetNotFoundError,
    SplitError,
    UnsupportedError,
    nearest_hint,
)
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.dataset_errors import (
    folder_hint,
    folders_in,
    tfds_errors,
    unreadable_folder,
)


class FileFormat(enum.StrEnum):
    """How records are stored, of the ways that can be read by index."""

    TFRECORD = "tfrecord"
    """TFDS's default. Offsets are found once and kept."""
    ARRAY_RECORD = "array_record"
    """Made for random access; holds its own index."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """A run of records in one file.

    Attributes:
        path: The file.
        skip: Records before the run.
        take: Records in the run.
        records_in_file: Records in the whole file, by the dataset's metadata.
    """

    path: str
    skip: int
    take: int
    records_in_file: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """The examples of one split: example i is the i-th record of `ranges` laid end to end.

    Attributes:
        name: TFDS name with config and version, such as `"mnist/3.0.1"`.
        split: The split expression.
        resolved: What it resolves to, as absolute ranges such as `"train[0:54000]"`.
        ranges: Where the records are, in the order of the split.
        features: TFDS's description of what a record holds.
        file_format: How the records are stored.
    """

    name: str
    split: str
    resolved: tuple[str, ...]
    ranges: tuple[FileRange, ...]
    features: tfds.features.FeaturesDict
    file_format: FileFormat = FileFormat.TFRECORD

    @property
    def num_examples(self) -> int:
        """Examples in the split."""
        return int(self._range_ends[-1]) if self.ranges else 0

    def locate(self, examples: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return (index into `ranges`, record in that file) of each example, both int64[n]."""
        of_range = np.searchsorted(self._range_ends, examples, side="right")
        starts = self._range_ends - self._range_takes
        records = examples - starts[of_range] + self._range_skips[of_range]
        return of_range, records

    def describe_ranges(self) -> list[tuple[str, int, int]]:
        """Return (file name, first record, records) of each range, the same on all machines."""
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


def open_builder(
    dataset: str | tfds.core.DatasetBuilder, data_dir: str | None
) -> tfds.core.DatasetBuilder:
    """Return the TFDS builder of a name, a prepared versioned folder, or the builder itself.

    Raises:
        DatasetNotFoundError: There is no such dataset, config, version or folder.
        ConfigError: A builder object and a data_dir.
    """
    if isinstance(dataset, tfds.core.DatasetBuilder):
        if data_dir is not None:
            raise ConfigError(
                f"A DatasetBuilder knows its folder; got data_dir={data_dir!r} beside one. "
                "Drop data_dir, or give the dataset by name."
            )
        return dataset
    if not isinstance(dataset, str | os.PathLike):
        raise ConfigError(
            "dataset must be a TFDS name, a folder or a DatasetBuilder; "
            f"got {type(dataset).__name__}. Give one of these."
        )
    name = os.fspath(dataset)
    if _looks_like_folder(name):
        return _open_folder(name)
    with tfds_errors(f"dataset={name!r}", name.split("/")[0].split(":")[0], data_dir):
        return tfds.builder(name, data_dir=data_dir)


def open_split(builder: tfds.core.DatasetBuilder, split: str) -> Split:
    """Return the records of `split`; reads the dataset's metadata only.

    Raises:
        DatasetNotFoundError: The dataset is not prepared.
        SplitError: The split does not exist, is malformed, or is empty.
        UnsupportedError: The dataset is stored in a format that cannot be read by index.
    """
    check_prepared(builder)
    file_format = _file_format(builder)
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
    source = Split(
        name=builder.info.full_name,
        split=split,
        resolved=_resolve(builder, split),
        ranges=ranges,
        features=builder.info.features,
        file_format=file_format,
    )
    if source.num_examples == 0:
        raise SplitError(
            f"A split holds at least one example; {split!r} of {source.name} resolves to none. "
            f"{_known_splits(builder)}"
        )
    return source


def open_splits(builder: tfds.core.DatasetBuilder, split: str | None) -> list[Split]:
    """Return the records of a split, or of each split that holds any.

    Raises:
        BatchesError: As for `open_split`.
    """
    if split is not None:
        return [open_split(builder, split)]
    check_prepared(builder)
    splits = builder.info.splits
    return [open_split(builder, name) for name in splits if splits[name].num_examples]


def check_prepared(builder: tfds.core.DatasetBuilder) -> None:
    """Raise DatasetNotFoundError when the dataset's files are not on disk."""
    if builder.info.splits:
        return
    name = ":".join(builder.info.full_name.rsplit("/", 1))
    raise DatasetNotFoundError(
        f"A dataset is prepared before it is read; {builder.info.full_name} is not: looked in "
        f"{os.fspath(builder.data_path)}. {_prepared_siblings(builder)}"
        "Pass prepare=True, or run "
        f'`python -c "import tensorflow_datasets as tfds{_module_of(builder)}; '
        f"tfds.builder('{name}', data_dir='{data_root(builder)}').download_and_prepare()\"`; "
        "or give data_dir."
    )


def _module_of(builder: tfds.core.DatasetBuilder) -> str:
    """Return what to import too, for a dataset that TFDS does not know by itself."""
    module = type(builder).__module__
    return "" if module.startswith("tensorflow_datasets.") else f", {module}"


def data_root(builder: tfds.core.DatasetBuilder) -> str:
    """Return the folder that holds the datasets, where `data_path` is that of one version."""
    depth = builder.info.full_name.count("/")
    root: str = os.fspath(builder.data_path.parents[depth])
    return root


def _looks_like_folder(name: str) -> bool:
    # A bare name is a dataset, also where a folder of the same name happens to lie.
    prepared = "/" in name and os.path.exists(os.path.join(name, "dataset_info.json"))
    return name.startswith(("/", "~", ".")) or "://" in name or prepared


def _open_folder(name: str) -> tfds.core.DatasetBuilder:
    folder = os.path.expanduser(name)
    try:
        return tfds.builder_from_directory(folder)
    # Also protobuf's own, where dataset_info.json is broken.
    except Exception as error:
        is_there = os.path.exists(os.path.join(folder, "dataset_info.json"))
        if is_there or not isinstance(error, OSError | ValueError | tf.errors.OpError):
            raise unreadable_folder(folder, error) from error
        raise DatasetNotFoundError(
            "A dataset folder is the versioned one, which holds dataset_info.json; "
            f"dataset={name!r} does not. {folder_hint(folder)}"
        ) from error


def _split_info(builder: tfds.core.DatasetBuilder, split: str) -> tfds.core.SplitInfo:
    try:
        return builder.info.splits[split]
    except (KeyError, ValueError, AssertionError, TypeError) as error:
        known = builder.info.splits
        bases = [part.split("[")[0].strip() for part in split.split("+")]
        hint = "".join(f"{nearest_hint(base, known)} " for base in bases if base not in known)
        reason = str(error).strip("'\"").splitlines()[0][:120]
        raise SplitError(
            f"split is a TFDS split expression; {split!r} is none of {builder.info.full_name} "
            f"({reason}). "
            f"{hint}{_known_splits(builder)}"
        ) from error


def _resolve(builder: tfds.core.DatasetBuilder, split: str) -> tuple[str, ...]:
    instructions = tfds.core.ReadInstruction.from_spec(split).to_absolute(builder.info.splits)
    return tuple(
        f"{part.splitname}[{part.from_ or 0}:{_stop_of(builder, part)}]" for part in instructions
    )


def _stop_of(builder: tfds.core.DatasetBuilder, part: Any) -> int:
    stop = builder.info.splits[part.splitname].num_examples if part.to is None else part.to
    return int(stop)


def _known_splits(builder: tfds.core.DatasetBuilder) -> str:
    counts = ", ".join(f"{s} ({info.num_examples})" for s, info in builder.info.splits.items())
    return f"Its splits, with their examples: {counts}; parts are written 'train[:90%]'."


def _file_format(builder: tfds.core.DatasetBuilder) -> FileFormat:
    stored = builder.info.file_format
    if stored is None:  # written before TFDS had a choice
        return FileFormat.TFRECORD
    try:
        return FileFormat(stored.value)
    except ValueError:
        pass
    raise UnsupportedError(
        f"Records are read by index from files of format {' or '.join(FileFormat)}; "
        f"{builder.info.full_name} is stored as {stored.value}. Convert it with "
        f"`pip install apache-beam && tfds convert_format --dataset_version_dir="
        f"{os.fspath(builder.data_path)} --out_file_format=array_record --out_dir=<new folder>`."
    )


def _prepared_siblings(builder: tfds.core.DatasetBuilder) -> str:
    names = folders_in(data_root(builder))
    return f"That folder's datasets: {', '.join(names[:10])}. " if names else ""

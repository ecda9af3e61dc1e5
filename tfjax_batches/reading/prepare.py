# SPDX-License-Identifier: Apache-2.0
"""Preparing a dataset that is not on disk yet, once on each machine."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow_datasets as tfds

from tfjax_batches.errors import DatasetNotFoundError
from tfjax_batches.reading.dataset import data_root, has_metadata
from tfjax_batches.reading.storage import is_remote


def prepare(builder: tfds.core.DatasetBuilder) -> None:
    """Download and prepare the dataset unless its files are on disk.

    Several processes of one machine may call it at once: one prepares, the others wait for it.

    Raises:
        DatasetNotFoundError: The folder cannot be written.
    """
    if _is_prepared(builder):
        return
    root = data_root(builder)
    try:
        with _machine_lock(root, builder.info.name):
            if not _is_prepared(builder):
                builder.download_and_prepare()
    except OSError as error:
        raise DatasetNotFoundError(
            f"prepare=True writes the dataset to its data_dir; {root} cannot be written: "
            f"{error}. Give another data_dir, or prepare {builder.info.full_name} elsewhere."
        ) from error


def reopen(builder: tfds.core.DatasetBuilder) -> tfds.core.DatasetBuilder:
    """Return a builder that knows files which were written after `builder` was made."""
    if builder.info.splits or not _is_prepared(builder):
        return builder
    return tfds.builder_from_directory(os.fspath(builder.data_path))


def _is_prepared(builder: tfds.core.DatasetBuilder) -> bool:
    # The splits are those from when the builder was made; files may have come since.
    return bool(builder.info.splits) or has_metadata(os.fspath(builder.data_path))


@contextmanager
def _machine_lock(data_dir: str, name: str) -> Iterator[None]:
    if is_remote(data_dir):  # cannot be locked
        yield
        return
    os.makedirs(data_dir, exist_ok=True)
    with open(os.path.join(data_dir, f".{name}.tfjax_batches.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed or the process dies
        yield

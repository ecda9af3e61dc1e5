# SPDX-License-Identifier: Apache-2.0
"""Errors for a dataset that is missing and for files of one that cannot be read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow_datasets as tfds

from tfjax_batches.errors import DatasetNotFoundError, RecordError, nearest_hint

RESTORE = "Restore the file or prepare the dataset again."
"""The fix for every damaged file."""


@contextmanager
def tfds_errors(dataset: str, data_dir: str | None, own: str) -> Iterator[None]:
    """Turn what TFDS raises for a name that it cannot build into one short error.

    Args:
        dataset: The name, with config and version.
        data_dir: The folder that holds the datasets. None: TFDS's default.
        own: The name of this library's dataset, which TFDS may not know yet.
    """
    try:
        yield
    except tfds.core.DatasetNotFoundError as error:
        known = [own, *tfds.list_builders(with_community_datasets=False)]
        folder = "TFDS's default data_dir"
        if data_dir is not None:
            folder = f"data_dir={data_dir!r}"
            known += folders_in(data_dir)
        raise DatasetNotFoundError(
            f"dataset must name a TFDS dataset, 'name[/config][:version]'; {dataset!r} is neither "
            f"registered nor prepared in {folder}. {nearest_hint(base_name(dataset), known)} "
            "Import the module that defines the builder, or give a versioned folder."
        ) from error
    # TFDS has no error class for these, and imports the dataset's module in between.
    except Exception as error:
        raise DatasetNotFoundError(
            f"dataset must name a TFDS dataset, 'name[/config][:version]'; {dataset!r} cannot be "
            f"built: {_first_line(error)}. Correct the name, config or version."
        ) from error


def base_name(dataset: str) -> str:
    """Return a dataset's name without config and version."""
    return dataset.split("/")[0].split(":")[0]


def missing_folder(dataset: str) -> DatasetNotFoundError:
    """Return the error for a folder without a dataset; suggests the folders one level below."""
    folder = os.path.expanduser(dataset)
    below = [name for name in folders_in(folder) if has_metadata(os.path.join(folder, name))]
    hint = "Give the folder <data_dir>/<name>[/<config>]/<version>, or the dataset by name."
    if not os.path.isdir(folder):
        hint = "There is no such folder: correct the path, or give the dataset by name."
    elif below:
        versions = " or ".join(os.path.join(folder, name) for name in below[:5])
        hint = f"It is one level too high: give {versions}."
    return DatasetNotFoundError(
        "A dataset's folder is the versioned one, which holds dataset_info.json; "
        f"dataset={dataset!r} does not. {hint}"
    )


def has_metadata(folder: str) -> bool:
    """Return whether a folder has the metadata of a prepared dataset."""
    return os.path.exists(os.path.join(folder, "dataset_info.json"))


def unreadable_metadata(folder: str, error: Exception) -> DatasetNotFoundError:
    """Return the error for a versioned folder whose metadata cannot be read."""
    return DatasetNotFoundError(
        "dataset_info.json and features.json must be as TFDS wrote them; those in "
        f"{folder} cannot be read: {_first_line(error)}. {RESTORE}"
    )


def unreadable_file(path: str, error: Exception) -> RecordError:
    """Return the error for a data file that cannot be read."""
    return RecordError(f"A split's files must be readable; {path} is not: {error}. {RESTORE}")


def folders_in(data_dir: str) -> list[str]:
    """Return the names of the folders that may hold datasets, sorted; none without `data_dir`."""
    try:
        names = [n for n in os.listdir(data_dir) if os.path.isdir(os.path.join(data_dir, n))]
    except OSError:
        return []
    return sorted(name for name in names if name not in ("downloads", "extracted"))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].removesuffix(":")

# SPDX-License-Identifier: Apache-2.0
"""Errors for a dataset that is missing and for files of one that cannot be read."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow_datasets as tfds

from tfjax_batches.errors import DatasetNotFoundError, RecordError, nearest_hint

RESTORE = "Restore the file or prepare the dataset again."
"""How to fix every damaged file."""


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
    except Exception as error:  # TFDS has few error classes, and imports the dataset's module
        reason = f"{_reason(error)}."
        if isinstance(error, tfds.core.DatasetNotFoundError):
            known = [own, *tfds.list_builders(with_community_datasets=False)]
            known += [] if data_dir is None else folders_in(data_dir)
            hint = nearest_hint(base_name(dataset), known)
            reason = f"none is registered or prepared in data_dir={data_dir!r}. {hint}"
        raise DatasetNotFoundError(
            f"dataset must name a TFDS dataset, 'name[/config][:version]'; {dataset!r} cannot be "
            f"built: {reason} Correct the name, config or version; or import the module that "
            "defines the builder; or give a versioned folder."
        ) from error


def base_name(dataset: str) -> str:
    """Return a dataset's name without config and version."""
    return dataset.split("/")[0].split(":")[0]


def missing_folder(dataset: str) -> DatasetNotFoundError:
    """Return the error for a folder without a dataset; suggests the folders one level below."""
    folder = os.path.expanduser(dataset)
    below = [os.path.join(folder, name) for name in folders_in(folder)]
    versions = [path for path in below if has_metadata(path)]
    hint = "Give the folder <data_dir>/<name>[/<config>]/<version>, or the dataset by name."
    if not os.path.isdir(folder):
        hint = "There is no such folder: correct the path, or give the dataset by name."
    elif versions:
        hint = f"It is one level too high: give {' or '.join(versions[:5])}."
    return DatasetNotFoundError(
        "A dataset's folder is the versioned one, which holds dataset_info.json; "
        f"dataset={dataset!r} does not. {hint}"
    )


def unreadable_metadata(folder: str, error: Exception) -> DatasetNotFoundError:
    """Return the error for a versioned folder whose metadata cannot be read."""
    return DatasetNotFoundError(
        "dataset_info.json and features.json must be as TFDS wrote them; those in "
        f"{folder} cannot be read: {_reason(error)}. {RESTORE}"
    )


def unreadable_file(path: str, error: Exception) -> RecordError:
    """Return the error for a data file that cannot be read."""
    return RecordError(f"A split's files must be readable; {path} is not: {error}. {RESTORE}")


def has_metadata(folder: str) -> bool:
    """Return whether a folder has the metadata of a prepared dataset."""
    return os.path.exists(os.path.join(folder, "dataset_info.json"))


def folders_in(folder: str) -> list[str]:
    """Return the names of the folders in a folder that may hold datasets, sorted."""
    try:
        names = {entry.name for entry in os.scandir(folder) if entry.is_dir()}
    except OSError:
        return []
    return sorted(names - {"downloads", "extracted"})


def _reason(error: Exception) -> str:
    """Return the start of an error's text, in which TFDS names near matches, on one line."""
    return " ".join(str(error).split())[:400].rstrip(" .:") or type(error).__name__

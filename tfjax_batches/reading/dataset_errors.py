# SPDX-License-Identifier: Apache-2.0
"""What is said of a dataset that is not there: what was meant, where it may be."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow_datasets as tfds

from tfjax_batches.errors import BatchesError, DatasetNotFoundError, nearest_hint


@contextmanager
def tfds_errors(what: str, name: str, data_dir: str | None) -> Iterator[None]:
    """Turn what TFDS raises for a name that it cannot build into one short error."""
    try:
        yield
    except BatchesError:
        raise
    except tfds.core.DatasetNotFoundError as error:
        known = tfds.list_builders(with_community_datasets=False)
        tried = "the default TFDS folder"
        if data_dir is not None:
            tried = data_dir
            known = [*known, *folders_in(data_dir)]
        raise DatasetNotFoundError(
            f"dataset names a TFDS dataset; {what} names none, neither registered nor prepared in "
            f"{tried}. {nearest_hint(name, known)} Import the module that defines the builder, "
            "or give a versioned folder."
        ) from error
    # TFDS has no error of its own for these, and imports the dataset's module meanwhile.
    except Exception as error:
        reason = str(error).strip().splitlines()[0].removesuffix(":")
        raise DatasetNotFoundError(
            f"dataset is 'name[/config][:version]' of a TFDS dataset; {what} cannot be built: "
            f"{reason}. {_version_hint(what)}{_config_hint(what)}"
            "Correct the name, config or version."
        ) from error


def unreadable_folder(folder: str, error: Exception) -> DatasetNotFoundError:
    """Return the error of a versioned folder whose metadata cannot be read."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return DatasetNotFoundError(
        "A dataset folder's dataset_info.json and features.json are as TFDS wrote them; those in "
        f"{folder} cannot be read: {reason}. Restore them or prepare the dataset again."
    )


def folder_hint(folder: str) -> str:
    """Say which versioned folders lie below, for one given a level too high."""
    if not os.path.isdir(folder):
        return "There is no such folder: check the path, or give the dataset by name."
    found = [
        os.path.relpath(root, folder)
        for root, _, files in _walk(folder, depth=3)
        if "dataset_info.json" in files
    ]
    if found:
        return f"Below it are {', '.join(sorted(found)[:5])}: name one of these."
    return "Give the folder <data_dir>/<name>[/<config>]/<version>, or the dataset by name."


def folders_in(data_dir: str) -> list[str]:
    """Return the names of the datasets that a folder seems to hold."""
    try:
        names = [n for n in os.listdir(data_dir) if os.path.isdir(os.path.join(data_dir, n))]
    except OSError:
        return []
    return sorted(name for name in names if name not in ("downloads", "extracted"))


def _version_hint(what: str) -> str:
    """Say how a version is written, where it was written like a config."""
    if found := re.search(r"'([^']*)/(\d+\.\d+\.\d+)'", what):
        return f"A version comes after a colon: {found[1]}:{found[2]}. "
    return ""


def _config_hint(what: str) -> str:
    """Name the config nearest to one that the dataset does not have."""
    found = re.search(r"'([^'/:]*)/([^'/:]*)", what)
    if not found or found[2][:1].isdecimal():
        return ""
    try:
        configs = tfds.builder_cls(found[1]).builder_configs
    # Its module may be what cannot be imported; then that is said already.
    except Exception:
        return ""
    return "" if found[2] in configs else f"{nearest_hint(found[2], configs)} "


def _walk(folder: str, depth: int) -> Iterator[tuple[str, list[str], list[str]]]:
    for root, folders, files in os.walk(folder):
        yield root, folders, files
        if os.path.relpath(root, folder).count(os.sep) >= depth - 1:
            folders.clear()

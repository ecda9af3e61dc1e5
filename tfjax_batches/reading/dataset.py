# SPDX-License-Identifier: Apache-2.0
"""From what a user calls a dataset to its TFDS builder."""

import os

import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import ConfigError, DatasetNotFoundError
from tfjax_batches.reading.dataset_errors import (
    base_name,
    folders_in,
    has_metadata,
    missing_folder,
    tfds_errors,
    unreadable_metadata,
)

_OWN = "digits"
"""The dataset that comes with this library."""


def open_builder(
    dataset: str | tfds.core.DatasetBuilder, data_dir: str | None
) -> tfds.core.DatasetBuilder:
    """Return the TFDS builder of a dataset, prepared or not.

    Args:
        dataset: TFDS `name[/config][:version]`, a prepared versioned folder, or the builder.
        data_dir: The folder that holds the datasets. None: TFDS's default.

    Raises:
        DatasetNotFoundError: There is no such dataset, config, version or folder.
        ConfigError: `dataset` has another type, or is a builder and `data_dir` is given.
    """
    if isinstance(dataset, tfds.core.DatasetBuilder):
        if data_dir is not None:
            raise ConfigError(
                f"A DatasetBuilder has a data_dir of its own; got data_dir={data_dir!r} as well. "
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
    if base_name(name) == _OWN:
        # TFDS knows a builder once its module is imported. Not at the top: importing a module
        # must not register anything, and nothing else here depends on the room of datasets.
        from tfjax_batches.datasets import digits  # noqa: F401
    with tfds_errors(name, data_dir, _OWN):
        return tfds.builder(name, data_dir=data_dir)


def check_prepared(builder: tfds.core.DatasetBuilder) -> None:
    """Check that a dataset's files are on disk.

    Raises:
        DatasetNotFoundError: They are not; names the folder and the command that prepares them.
    """
    if builder.info.splits:
        return
    name = ":".join(builder.info.full_name.rsplit("/", 1))
    root = data_root(builder)
    siblings = ", ".join(folders_in(root)[:10])
    raise DatasetNotFoundError(
        f"A dataset must be prepared before it is read; {builder.info.full_name} is not: looked "
        f"in {os.fspath(builder.data_path)}. "
        f"{f'Datasets found in {root}: {siblings}. ' if siblings else ''}"
        "Pass prepare=True, or run "
        f'`python -c "import tensorflow_datasets as tfds{_module_of(builder)}; '
        f"tfds.builder('{name}', data_dir='{root}').download_and_prepare()\"`; "
        "or give data_dir."
    )


def data_root(builder: tfds.core.DatasetBuilder) -> str:
    """Return the folder that holds all datasets; `builder.data_path` is that of one version."""
    depth = builder.info.full_name.count("/")
    root: str = os.fspath(builder.data_path.parents[depth])
    return root


def _module_of(builder: tfds.core.DatasetBuilder) -> str:
    """Return `, module` for a dataset whose module must be imported before TFDS knows it."""
    module = type(builder).__module__
    return "" if module.startswith("tensorflow_datasets.") else f", {module}"


def _looks_like_folder(name: str) -> bool:
    # A bare name is a dataset, even where there is a folder of that name.
    return name.startswith(("/", "~", ".")) or "://" in name or ("/" in name and has_metadata(name))


def _open_folder(name: str) -> tfds.core.DatasetBuilder:
    folder = os.path.expanduser(name)
    try:
        return tfds.builder_from_directory(folder)
    except Exception as error:  # protobuf's own where dataset_info.json is broken
        if has_metadata(folder) or not isinstance(error, OSError | ValueError | tf.errors.OpError):
            raise unreadable_metadata(folder, error) from error
        raise missing_folder(name) from error

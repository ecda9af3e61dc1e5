# SPDX-License-Identifier: Apache-2.0
"""From what a user calls a dataset to its TFDS builder."""

import os
import re
import textwrap

import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.errors import (
    ConfigError,
    DatasetNotFoundError,
    UnsupportedError,
    nearest_hint,
)
from tfjax_batches.reading.storage import is_remote, local_path

_OWN = "digits"
"""The dataset that comes with this library."""

_REASON_CHARACTERS = 400  # TFDS names near matches at the start of a long text


def open_builder(
    dataset: str | tfds.core.DatasetBuilder, data_dir: str | None
) -> tfds.core.DatasetBuilder:
    """Return the TFDS builder of a dataset, prepared or not.

    Args:
        dataset: TFDS `name[/config][:version]`, a prepared versioned folder, or the builder.
        data_dir: The folder that holds the datasets; `~` is the home folder. None: TFDS's default.

    Raises:
        DatasetNotFoundError: There is no such dataset, config, version or folder.
        ConfigError: `dataset` is a builder and `data_dir` is given.
    """
    if isinstance(dataset, tfds.core.DatasetBuilder):
        if data_dir is not None:
            raise ConfigError(
                f"A DatasetBuilder has a data_dir of its own; got data_dir={data_dir!r} as well. "
                "Drop data_dir, or give the dataset by name."
            )
        return dataset
    if data_dir is not None:
        data_dir = local_path(os.fspath(data_dir))
    name = os.fspath(dataset)
    if _looks_like_folder(name):
        return _open_folder(name)
    base_name = re.split("[/:]", name)[0]
    if base_name == _OWN:
        # TFDS knows a builder once its module is imported. Not at the top: importing a module
        # must not register anything, and nothing else here depends on the room of datasets.
        from tfjax_batches.datasets import digits  # noqa: F401
    try:
        return tfds.builder(name, data_dir=data_dir)
    except Exception as error:  # TFDS has few error classes, and imports the dataset's module
        reason = _reason(error)
        if isinstance(error, tfds.core.DatasetNotFoundError):
            known = [_OWN, *tfds.list_builders(with_community_datasets=False)]
            hint = nearest_hint(base_name, known)
            reason = f"none is registered or prepared in data_dir={data_dir!r}. {hint}"
            reason += _prepared_hint(os.path.join(data_dir or "", base_name)) if data_dir else ""
        raise DatasetNotFoundError(
            f"dataset must name a TFDS dataset, 'name[/config][:version]'; {name!r} cannot be "
            f"built: {reason} Correct the name, config or version; or import the module that "
            "defines the builder; or give a versioned folder."
        ) from error


def check_prepared(builder: tfds.core.DatasetBuilder) -> None:
    """Check that a dataset has record files, and that it was prepared.

    Raises:
        UnsupportedError: It is made of other files, such as the images of `tfds.ImageFolder`.
        DatasetNotFoundError: It is not prepared; names the folder and the command to prepare it.
    """
    if builder.info.file_format is None:  # TFDS gives one to all builders that read record files
        raise UnsupportedError(
            f"Examples are read from the record files of a dataset; {type(builder).__name__} has "
            f"none in {builder.data_path}. Store its examples in some: "
            "`tfds.dataset_builders.store_as_tfds_dataset(name='my_dataset', version='1.0.0', "
            "features=builder.info.features, split_datasets={split: builder.as_dataset("
            "split=split) for split in builder.info.splits}, data_dir='my_data_dir')`; "
            "then pass dataset='my_dataset', data_dir='my_data_dir'."
        )
    if builder.info.splits:
        return
    name = ":".join(builder.info.full_name.rsplit("/", 1))
    raise DatasetNotFoundError(
        f"A dataset must be prepared before it is read; {builder.info.full_name} is not: looked "
        f"in {builder.data_path}. Pass prepare=True, or run "
        # TFDS knows the builder of another package once its module is imported.
        f'`python -c "import tensorflow_datasets as tfds, {type(builder).__module__}; '
        f"tfds.builder('{name}', data_dir='{data_root(builder)}').download_and_prepare()\"`; "
        "or give data_dir."
        f"{_prepared_hint(os.path.join(data_root(builder), builder.name))}"
    )


def _prepared_hint(folder: str) -> str:
    """Return which versions of a dataset are prepared in its folder, for messages."""
    patterns = [os.path.join(folder, depth, "dataset_info.json") for depth in ("*", "*/*")]
    found = sorted(os.path.dirname(path) for each in patterns for path in tf.io.gfile.glob(each))
    return f" Prepared, and readable as dataset=…: {', '.join(found)}." if found else ""


def data_root(builder: tfds.core.DatasetBuilder) -> str:
    """Return the folder that holds all datasets; `builder.data_path` is that of one version."""
    depth = builder.info.full_name.count("/")
    root: str = os.fspath(builder.data_path.parents[depth])
    return root


def has_metadata(folder: str) -> bool:
    """Return whether a folder has the metadata of a prepared dataset."""
    return bool(tf.io.gfile.exists(os.path.join(folder, "dataset_info.json")))


def _looks_like_folder(name: str) -> bool:
    # A bare name is a dataset, even where there is a folder of that name.
    return name.startswith(("/", "~", ".")) or "://" in name or ("/" in name and has_metadata(name))


def _open_folder(name: str) -> tfds.core.DatasetBuilder:
    folder = local_path(name)
    try:
        return tfds.builder_from_directory(folder)
    except Exception as error:  # protobuf's own where dataset_info.json is broken
        raise DatasetNotFoundError(
            "A dataset's folder is the versioned one, with dataset_info.json and features.json as "
            f"TFDS wrote them; {name} cannot be read: {_reason(error)} Give the folder "
            "<data_dir>/<name>[/<config>]/<version>, or the dataset by name."
            f"{_metadata_hint(folder)}{_prepared_hint(folder)}"
        ) from error


def _metadata_hint(folder: str) -> str:
    """Return how to write the metadata of a folder that has record files alone."""
    if is_remote(folder) or has_metadata(folder):
        return ""
    if not tf.io.gfile.glob(os.path.join(folder, "*record*")):
        return ""
    return (
        " TFDS writes the metadata of record files of others, whose features you name: "
        f"`tfds.folder_dataset.write_metadata(data_dir={folder!r}, features={{...}})`; see "
        "https://www.tensorflow.org/datasets/external_tfrecord."
    )


def _reason(error: Exception) -> str:
    return textwrap.shorten(f"{type(error).__name__}: {error}", _REASON_CHARACTERS)

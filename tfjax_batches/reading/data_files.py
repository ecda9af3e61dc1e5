# SPDX-License-Identifier: Apache-2.0
"""Which data files are in the folders of a dataset, compared with its metadata.

A folder is listed once, which on object storage is far cheaper than to ask for each of its files.
"""

import os
from collections.abc import Iterable

import tensorflow as tf
import tensorflow_datasets as tfds

from tfjax_batches.reading.file_errors import missing_files, unreadable_file
from tfjax_batches.reading.split import Split
from tfjax_batches.reading.storage import FILE_ERRORS


def check_files_exist(split: Split) -> None:
    """Check that the files of a split are in their folder. Opens none.

    Raises:
        RecordError: Some are not; names the first of them.
    """
    paths = {part.path: None for part in split.ranges}
    present = _list_folders(paths)
    if missing := [path for path in paths if path not in present]:
        raise missing_files(missing, len(paths))


def find_unknown_files(builder: tfds.core.DatasetBuilder) -> list[str]:
    """Return the record files in a dataset's folders that its metadata does not know, sorted."""
    splits = builder.info.splits.values()
    known = {os.fspath(path) for info in splits for path in info.filepaths}
    kind = f".{builder.info.file_format.value}"
    return sorted(
        path
        for path in _list_folders(known) - known
        if kind in (name := os.path.basename(path)) and not name.startswith(".")
    )


def _list_folders(paths: Iterable[str]) -> set[str]:
    """Return the paths of all files in the folders of some files."""
    present = set()
    for folder in {os.path.dirname(path) for path in paths}:
        try:
            present |= {os.path.join(folder, name) for name in tf.io.gfile.listdir(folder or ".")}
        except FILE_ERRORS as error:
            raise unreadable_file(folder, error) from error
    return present

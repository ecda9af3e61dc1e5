# SPDX-License-Identifier: Apache-2.0
"""`index`: the index of records, made ahead of the first run."""

import argparse
import os

import numpy as np

from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.record_index import index_paths, open_index, split_stem
from tfjax_batches.reading.split import FileFormat, Split, open_builder, open_splits
from tfjax_batches.reading.storage import is_remote
from tfjax_batches.text.formatting import count_text


def run(arguments: argparse.Namespace) -> int:
    """Make the index of each split where it is missing; print where it is kept."""
    builder = open_builder(arguments.dataset, arguments.data_dir)
    for source in open_splits(builder, arguments.split):
        files = {part.path: part.records_in_file for part in source.ranges}
        found = f"{count_text(sum(files.values()), 'record')} in {count_text(len(files), 'file')}"
        print(f"{source.name} {source.split}: {found}; {_make(source, files)}", flush=True)
    return 0


def _make(source: Split, files: dict[str, int]) -> str:
    """Make the index of some files; say where it is."""
    if source.file_format is FileFormat.ARRAY_RECORD:
        firsts = np.cumsum([0, *(part.take for part in source.ranges[:-1])])
        open_reader(source).read(firsts)  # opens each file, and sees that it has its records
        return "the files hold their own index"
    open_index(files)
    kept = [_find(stem) for stem in sorted({split_stem(path) for path in files})]
    return f"index in {', '.join(kept)}"


def _find(stem: str) -> str:
    paths = index_paths(stem)
    there = (path for path in paths if is_remote(path) or os.path.exists(path))
    return next(there, "no file: none of its folders can be written to")

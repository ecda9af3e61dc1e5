# SPDX-License-Identifier: Apache-2.0
"""`index`: find where the records of a dataset begin, before the first run does."""

import argparse

from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.split import open_splits
from tfjax_batches.text.formatting import count_text


def run(arguments: argparse.Namespace) -> int:
    """Index each split that has no index yet, and print where the index is."""
    builder = open_builder(arguments.dataset, arguments.data_dir)
    for split in open_splits(builder, arguments.split):
        reader = open_reader(split)
        reader.open()
        files = {part.path: part.records_in_file for part in split.ranges}
        found = f"{count_text(sum(files.values()), 'record')} in {count_text(len(files), 'file')}"
        index = f"index in {reader.index_location()}"
        print(f"{split.name} {split.split}: {found}; {index}", flush=True)
    return 0

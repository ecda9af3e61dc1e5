# SPDX-License-Identifier: Apache-2.0
"""`index`: find where the records of a dataset begin, before the first run does."""

import argparse

from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.split import Split, open_splits
from tfjax_batches.reading.tfrecord.partial_scan import Part
from tfjax_batches.reading.tfrecord.record_index import index_part
from tfjax_batches.text.formatting import count_text


def run(arguments: argparse.Namespace) -> int:
    """Index each split that has no index yet, and print where the index is."""
    builder = open_builder(arguments.dataset, arguments.data_dir)
    for split in open_splits(builder, arguments.split):
        if arguments.part is not None:
            _index_part(split, arguments.part)
            continue
        reader = open_reader(split)
        reader.open()
        files = {part.path: part.records_in_file for part in split.ranges}
        found = f"{count_text(sum(files.values()), 'record')} in {count_text(len(files), 'file')}"
        index = f"index in {reader.index_location()}"
        print(f"{split.name} {split.split}: {found}; {index}", flush=True)
    return 0


def _index_part(split: Split, part: Part) -> None:
    """Scan some of the files of a split, and print where the result is."""
    if split.file_format != "tfrecord":
        print(f"{split.name} {split.split}: {split.file_format} files hold their own index")
        return
    paths = index_part({each.path: each.records_in_file for each in split.ranges}, part)
    where = ", ".join(paths) or "nothing was missing"
    print(f"{split.name} {split.split}: part {part.number}/{part.count}: {where}", flush=True)

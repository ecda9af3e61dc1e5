# SPDX-License-Identifier: Apache-2.0
"""`verify`: check that all records of a dataset are as they were written."""

import argparse

from tqdm import tqdm

from tfjax_batches.reading.damage import check_files
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.split import Split, open_splits
from tfjax_batches.text.formatting import count_text


def run(arguments: argparse.Namespace) -> int:
    """Check each split and print what is damaged; return 1 if anything is, else 0."""
    builder = open_builder(arguments.dataset, arguments.data_dir)
    is_good = [_verify(split) for split in open_splits(builder, arguments.split)]
    return 0 if all(is_good) else 1


def _verify(split: Split) -> bool:
    good = 0
    # disable=None: no progress bar where stderr is not a terminal.
    with tqdm(total=split.num_examples, unit=" records", disable=None, leave=False) as progress:
        for intact, errors in check_files(split, progress.update):
            good += intact
            for error in errors:
                tqdm.write(f"{split.split}: {error}")
    files = count_text(len({part.path for part in split.ranges}), "file")
    records = count_text(split.num_examples, "record")
    print(f"{split.name} {split.split}: {good:,} of {records} in {files} intact", flush=True)
    return good == split.num_examples

# SPDX-License-Identifier: Apache-2.0
"""`verify`: check that all records of a dataset are as they were written."""

import argparse

from tqdm import tqdm

from tfjax_batches.reading.damage import check_files
from tfjax_batches.reading.data_files import find_unknown_files
from tfjax_batches.reading.dataset import open_builder
from tfjax_batches.reading.split import Split, open_splits
from tfjax_batches.text.formatting import count_text


def run(arguments: argparse.Namespace) -> int:
    """Check each split and print what is damaged; return 1 if anything is, else 0."""
    builder = open_builder(arguments.dataset, arguments.data_dir)
    splits = open_splits(builder, arguments.split)
    is_good = [_verify(split, arguments.decode) for split in splits]
    for path in find_unknown_files(builder):
        print(f"{builder.info.full_name}: {path} is not in the metadata, and is never read")
    return 0 if all(is_good) else 1


def _verify(split: Split, decode: bool) -> bool:
    good = 0
    # disable=None: no progress bar where stderr is not a terminal.
    with tqdm(total=split.num_examples, unit=" records", disable=None, leave=False) as progress:
        for intact, errors in check_files(split, progress.update, decode=decode):
            good += intact
            for error in errors:
                tqdm.write(f"{split.split}: {error}")
    files = count_text(len({part.path for part in split.ranges}), "file")
    records = count_text(split.num_examples, "record")
    checked = "decoded" if decode else "intact"
    print(f"{split.name} {split.split}: {good:,} of {records} in {files} {checked}", flush=True)
    return good == split.num_examples

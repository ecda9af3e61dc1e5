# SPDX-License-Identifier: Apache-2.0
"""`verify`: whether all records of a dataset are as they were written."""

import argparse

from tqdm import tqdm

from tfjax_batches.reading.damage import check_files
from tfjax_batches.reading.split import Split, open_builder, open_splits
from tfjax_batches.text.formatting import count_text


def run(arguments: argparse.Namespace) -> int:
    """Check each split; print what is damaged, and return 1 if anything is."""
    builder = open_builder(arguments.dataset, arguments.data_dir)
    is_good = [_verify(source) for source in open_splits(builder, arguments.split)]
    return 0 if all(is_good) else 1


def _verify(source: Split) -> bool:
    good = unchecked = 0
    # None: no bar where stderr is no terminal.
    with tqdm(total=source.num_examples, unit=" records", disable=None, leave=False) as progress:
        for found in check_files(source, progress.update):
            good += found.good
            unchecked += found.unchecked
            for error in found.errors:
                tqdm.write(f"{source.split}: {error}")
    files = count_text(len({part.path for part in source.ranges}), "file")
    counted = f"{good:,} of {count_text(source.num_examples, 'record')} in {files} as written"
    if unchecked:  # what is good of them is not known
        counted += f", {unchecked:,} not checked"
    if unchecked == source.num_examples:
        counted = f"{count_text(unchecked, 'record')} in {files} not checked"
    print(f"{source.name} {source.split}: {counted}", flush=True)
    return good == source.num_examples

# SPDX-License-Identifier: Apache-2.0
"""Errors for data files that cannot be read, or that do not hold what the metadata says."""

from tfjax_batches.errors import RecordError

RESTORE = "Restore the file or prepare the dataset again."
"""How to fix every damaged file."""


def unreadable_file(path: str, reason: str | Exception) -> RecordError:
    """Return the error for a data file that cannot be read."""
    reason = str(reason) or type(reason).__name__  # some errors of TensorFlow have no text
    return RecordError(f"A split's files must be readable; {path} is not: {reason}. {RESTORE}")


def wrong_records(path: str, num_records: int, reason: str) -> RecordError:
    """Return the error for a data file without the `num_records` records of the metadata."""
    return RecordError(
        f"A file must hold the records that the dataset's metadata counts, {num_records} in "
        f"{path}; {reason}. {RESTORE}"
    )

# SPDX-License-Identifier: Apache-2.0
"""Errors for data files that cannot be read, or that do not hold what the metadata says."""

import errno
import os
import resource
from collections.abc import Sequence

from tfjax_batches.errors import RecordError, UnsupportedError

RESTORE = "Restore the file or prepare the dataset again."
"""How to fix every damaged file."""


def unreadable_file(path: str, reason: str | Exception) -> RecordError:
    """Return the error for a data file that cannot be read."""
    reason = str(reason) or type(reason).__name__  # some errors of TensorFlow have no text
    if os.strerror(errno.EMFILE) in reason:  # as text: errors of TensorFlow have no errno
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return RecordError(
            f"A process must be able to open a split's files; {path} is one too many: {reason}. "
            f"The process may have {limit} open; raise that with `ulimit -n {4 * limit}` in the "
            "shell that starts it."
        )
    return RecordError(f"A split's files must be readable; {path} is not: {reason}. {RESTORE}")


def missing_files(paths: Sequence[str], num_files: int) -> RecordError:
    """Return the error for data files of a split that are not there, out of all `num_files`."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return RecordError(
        f"A split's files must be in their folder; of {num_files}, {paths[0]}{more} "
        f"{'are' if more else 'is'} missing. {RESTORE}"
    )


def compressed_file(path: str) -> UnsupportedError:
    """Return the error for a TFRecord file that is compressed."""
    return UnsupportedError(
        f"Records are read by index from TFRecord files without compression; {path} is compressed "
        "with gzip or zlib. Write the file again from "
        "tf.data.TFRecordDataset(path, compression_type=...) with tf.io.TFRecordWriter."
    )


def wrong_records(path: str, num_records: int, reason: str) -> RecordError:
    """Return the error for a data file without the `num_records` records of the metadata."""
    return RecordError(
        f"A file must hold the records that the dataset's metadata counts, {num_records} in "
        f"{path}; {reason}. {RESTORE}"
    )

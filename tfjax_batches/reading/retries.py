# SPDX-License-Identifier: Apache-2.0
"""Reads that fail are tried again: on network storage most errors pass."""

import time

import numpy as np
import numpy.typing as npt
from absl import logging

from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading.formats import RecordReader
from tfjax_batches.reading.storage import FILE_ERRORS

# Seconds before each further try. Short, so that an error that lasts comes soon.
_PAUSES = (0.0, 0.1)


class RetryingReader:
    """Reads records, up to three times each. Safe to use from many threads, like the reader.

    An error that passes is logged; of many such errors the 1st, 2nd, 4th, 8th and so on.

    Args:
        reader: Access to the records.
    """

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._passed = 0  # without a lock: a lost one changes only the log

    def read(self, examples: Int64Array, purpose: str) -> npt.NDArray[np.object_]:
        """Return the stored bytes of some examples; see `RecordReader.read`.

        Args:
            examples: int64[n].
            purpose: What they are for, named in the log.

        Raises:
            RecordError: As `RecordReader.read`, at each try.
        """
        failures, reason = 0, ""
        while True:
            try:
                records = self._reader.read(examples)
            except (RecordError, *FILE_ERRORS) as error:
                if failures == len(_PAUSES):
                    raise
                time.sleep(_PAUSES[failures])
                failures, reason = failures + 1, str(error.__cause__ or error)
                continue
            if failures:
                self._log(purpose, reason)
            return records

    def _log(self, purpose: str, reason: str) -> None:
        self._passed += 1
        if self._passed.bit_count() == 1:
            logging.warning(
                "tfjax_batches: %s was read only when tried again (%d such so far): %s",
                purpose,
                self._passed,
                reason,
            )

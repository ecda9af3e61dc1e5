# SPDX-License-Identifier: Apache-2.0
"""The record at fault is found among good ones, whatever their features."""

import numpy as np
import pytest

from tests.reading.feature_kinds import VARIABLE
from tests.reading.test_decode import features_of, serialize
from tfjax_batches.pipeline.record_faults import explain_failure
from tfjax_batches.planning.plan import StepPlan
from tfjax_batches.reading.decode import Decoder


class Records:
    """Reads from a list of records."""

    def __init__(self, records: list[bytes]) -> None:
        self._records = records

    def read(self, examples: np.ndarray) -> np.ndarray:
        data = np.empty(len(examples), object)
        data[:] = [self._records[example] for example in examples]
        return data

    def mean_record_bytes(self) -> float:
        return 1.0

    def describe(self, example: int) -> str:
        return f"record {example}"


@pytest.mark.parametrize("kind", VARIABLE)
def test_explain_failure_passes_over_good_records_of_every_kind(kind: str) -> None:
    features = features_of(kind)
    reader = Records([*serialize(features, 4), b"no example"])
    decoder = Decoder(features, None, "made")
    for examples, text in ([[0, 1, 2, 3, -1], None], [[0, 1, 2, 3, 4], "record 4, is not: "]):
        ids = np.array(examples)
        plan = StepPlan(rows=np.arange(5), examples=ids, epochs=np.zeros(5, int), mask=ids >= 0)
        error = explain_failure(7, plan, reader, decoder, process_index=1)
        assert (error is None) == (text is None), error
        if text is not None:
            assert text in str(error)
            assert "(Step 7 on process 1.)" in str(error)

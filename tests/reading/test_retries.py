# SPDX-License-Identifier: Apache-2.0
"""Reads are tried three times; errors that pass are logged, but not each of many."""

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from tests.pipeline.test_planned_reader import FakeReader
from tfjax_batches.errors import RecordError
from tfjax_batches.planning.order import Int64Array
from tfjax_batches.reading import retries
from tfjax_batches.reading.retries import RetryingReader


class Failing(FakeReader):
    """Raises each of some errors once."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors

    def read(self, examples: Int64Array) -> npt.NDArray[np.object_]:
        if self.errors:
            raise self.errors.pop(0)
        return super().read(examples)


TWO = np.arange(2)
RECORDS = [b"0\0", b"1\0"]


def test_read_tries_three_times_and_logs_once(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[Exception] = [OSError("one"), tf.errors.UnavailableError(None, None, "two")]
    assert RetryingReader(Failing(errors)).read(TWO, "step 3").tolist() == RECORDS
    assert len(caplog.messages) == 1
    assert "step 3 was read only when tried again (1 such so far): two" in caplog.text


def test_read_raises_the_last_of_three_errors_without_a_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors: list[Exception] = [RecordError("one"), OSError("two"), RecordError("three")]
    with pytest.raises(RecordError, match="three"):
        RetryingReader(Failing(errors)).read(TWO, "step 3")
    assert caplog.messages == []


def test_read_does_not_try_again_after_a_mistake_in_code() -> None:
    errors: list[Exception] = [TypeError("no number")]
    with pytest.raises(TypeError):
        RetryingReader(Failing(errors)).read(TWO, "step 3")


def test_read_logs_few_of_many_errors(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_PAUSES", (0.0,))
    failing = Failing([])
    reader = RetryingReader(failing)
    for step in range(100):
        failing.errors.append(OSError(f"error {step}"))
        assert reader.read(TWO, f"step {step}").tolist() == RECORDS
    assert [message.split(": ")[-1] for message in caplog.messages] == [
        f"error {count - 1}" for count in (1, 2, 4, 8, 16, 32, 64)
    ]

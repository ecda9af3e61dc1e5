# SPDX-License-Identifier: Apache-2.0
"""Checksums are those that TensorFlow stores, and any flipped bit is noticed."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.reading.writing import write_records
from tfjax_batches.reading.tfrecord.checksum import length_crcs, masked_crcs


def test_crcs_are_those_that_tensorflow_stores(tmp_path: Path) -> None:
    write_records(tmp_path / "file", [b"some data"])
    stored = (tmp_path / "file").read_bytes()
    assert length_crcs(np.array([9])).tolist() == [int.from_bytes(stored[8:12], "little")]
    assert masked_crcs([b"some data"]).tolist() == [int.from_bytes(stored[-4:], "little")]


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=9), st.data())
def test_one_flipped_bit_is_noticed_in_its_record_alone(
    records: list[bytes], data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(records) - 1))
    bit = data.draw(st.integers(0, 8 * len(records[number]) - 1))
    changed = bytearray(records[number])
    changed[bit // 8] ^= 1 << bit % 8
    damaged = [*records[:number], bytes(changed), *records[number + 1 :]]
    assert np.flatnonzero(masked_crcs(damaged) != masked_crcs(records)).tolist() == [number]


@given(st.lists(st.integers(0, 2**63 - 1), max_size=9))
def test_length_crcs_are_those_of_the_stored_bytes(lengths: list[int]) -> None:
    stored = [length.to_bytes(8, "little") for length in lengths]
    np.testing.assert_array_equal(length_crcs(np.array(lengths, np.int64)), masked_crcs(stored))

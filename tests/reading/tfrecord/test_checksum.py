# SPDX-License-Identifier: Apache-2.0
"""Checksums are those that TensorFlow stores, and any flipped bit is noticed."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.reading.writing import write_records
from tfjax_batches.reading.tfrecord.checksum import (
    data_is_intact,
    lengths_are_intact,
    masked_crc,
)


def test_masked_crc_is_the_one_that_tensorflow_stores(tmp_path: Path) -> None:
    write_records(tmp_path / "file", [b"some data"])
    stored = (tmp_path / "file").read_bytes()
    assert masked_crc(stored[:8]) == int.from_bytes(stored[8:12], "little")
    assert masked_crc(b"some data") == int.from_bytes(stored[-4:], "little")


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=9), st.data())
def test_one_flipped_bit_is_noticed_in_its_record_alone(
    records: list[bytes], data: st.DataObject
) -> None:
    stored = np.array([masked_crc(record) for record in records], np.uint32)
    number = data.draw(st.integers(0, len(records) - 1))
    bit = data.draw(st.integers(0, 8 * len(records[number]) - 1))
    changed = bytearray(records[number])
    changed[bit // 8] ^= 1 << bit % 8
    damaged = [*records[:number], bytes(changed), *records[number + 1 :]]
    assert data_is_intact(records, stored).all()
    assert np.flatnonzero(~data_is_intact(damaged, stored)).tolist() == [number]


def test_lengths_are_intact_says_which_is_not() -> None:
    lengths = np.array([5, 700, 5, 0], np.int64)
    stored = np.array([masked_crc(int(n).to_bytes(8, "little")) for n in lengths], np.uint32)
    assert lengths_are_intact(lengths, stored).all()
    lengths[2] += 1
    assert lengths_are_intact(lengths, stored).tolist() == [True, True, False, True]

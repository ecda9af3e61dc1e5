# SPDX-License-Identifier: Apache-2.0
"""Each remainder answers for all that depends on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.planning.policies import Remainder


@given(num_examples=st.integers(1, 10**6), size=st.integers(1, 10**4))
def test_epoch_length_is_all_examples_or_whole_batches(num_examples: int, size: int) -> None:
    assert Remainder.CARRY.epoch_length(num_examples, size) == num_examples
    dropped = Remainder.DROP.epoch_length(num_examples, size)
    padded = Remainder.PAD.epoch_length(num_examples, size)
    assert dropped % size == padded % size == 0
    assert dropped <= num_examples <= padded
    assert padded - dropped == (size if num_examples % size else 0)


@pytest.mark.parametrize(
    ("remainder", "has_mask", "allows_new_batch_size", "text"),
    [
        (Remainder.CARRY, False, True, "next epoch"),
        (Remainder.DROP, False, False, "3 examples left out of each epoch"),
        (Remainder.PAD, True, False, "1 row of zeros"),
    ],
)
def test_remainder_answers(
    remainder: Remainder, has_mask: bool, allows_new_batch_size: bool, text: str
) -> None:
    assert remainder.has_mask == has_mask
    assert remainder.allows_new_batch_size == allows_new_batch_size
    assert text in remainder.describe(11, 4)

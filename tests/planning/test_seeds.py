# SPDX-License-Identifier: Apache-2.0
"""Seeds are pinned, differ wherever they should, and are random enough."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.planning.order import permute
from tfjax_batches.planning.seeds import derive_seeds

INT63 = st.integers(0, 2**63 - 1)
KEYS = st.tuples(INT63, INT63, INT63, st.integers(0, 40))


def seeds_of(seed: int, epoch: int, example: int, place: int) -> tuple[int, int]:
    """Return one seed by itself."""
    ((pair,),) = derive_seeds(seed, np.array([epoch]), np.array([example]), (place,)).tolist()
    return tuple(pair)


def test_derive_seeds_values_are_pinned() -> None:
    seeds = derive_seeds(42, np.array([0, 1, 1]), np.array([0, 0, 2**40]), (0, 3))
    assert seeds.dtype == np.int32
    assert seeds.tolist() == [
        [[-14615770, -1455606569], [1943303200, -301789683]],
        [[-1903653505, 687418974], [-799561334, 1127340866]],
        [[-1694230931, -1380494169], [-1977731172, -109683544]],
    ]
    assert seeds_of(2**63 - 1, 2**31, 5, 1) == (1569421115, -1149500924)


@given(
    st.lists(
        st.tuples(INT63, INT63, INT63, st.integers(0, 40)), min_size=2, max_size=9, unique=True
    )
)
def test_derive_seeds_differ_wherever_any_part_of_the_key_does(
    keys: list[tuple[int, int, int, int]],
) -> None:
    assert len({seeds_of(*key) for key in keys}) == len(keys)


def test_derive_seeds_of_small_neighbours_all_differ() -> None:
    small = [(s, e, x, p) for s in range(4) for e in range(4) for x in range(16) for p in range(4)]
    assert len({seeds_of(*key) for key in small}) == len(small)


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(-1, 50), min_size=1, max_size=20))
def test_derive_seeds_depend_on_no_other_row_and_are_zeros_on_padding_alone(
    seed: int, examples: list[int]
) -> None:
    epochs = np.arange(len(examples))
    seeds = derive_seeds(seed, epochs, np.array(examples), (0, 2))
    for row, example in enumerate(examples):
        alone = derive_seeds(seed, epochs[row : row + 1], np.array([example]), (2,))
        assert np.array_equal(seeds[row, 1], alone[0, 0])
        assert bool(seeds[row].any(axis=-1).all()) == (example >= 0)


def test_derive_seeds_bits_are_even_and_unlike_the_order() -> None:
    examples = np.arange(4096)
    seeds = derive_seeds(0, np.zeros(4096, np.int64), examples, (0,)).view(np.uint32).ravel()
    bits = np.unpackbits(seeds.view(np.uint8)).reshape(-1, 32).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 0.04  # 5 standard deviations are 0.028
    order = permute(examples, 4096, 0, np.zeros(4096, np.int64))
    assert abs(np.corrcoef(order, seeds[::2])[0, 1]) < 0.08

# SPDX-License-Identifier: Apache-2.0
"""Times and bandwidths with their units; anything else is refused with an example."""

import pytest

from tfjax_batches.text.units import parse_bandwidth, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("30ms", 0.03), ("0.5s", 0.5), ("250 us", 2.5e-4), (" 1s ", 1.0)]
)
def test_parse_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "rate"), [("5Gbps", 625e6), ("200MB/s", 2e8), ("8 kbps", 1e3), ("1.5GB/s", 1.5e9)]
)
def test_parse_bandwidth(text: str, rate: float) -> None:
    assert parse_bandwidth(text) == pytest.approx(rate)


@pytest.mark.parametrize("text", ["", "3", "ms", "0ms", "-1ms", "1e3ms", "nan s", "3 hours"])
def test_parse_seconds_of_other_texts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 30ms"):
        parse_seconds(text)
    with pytest.raises(ValueError, match="such as 5Gbps"):
        parse_bandwidth(text)

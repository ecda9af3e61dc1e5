# SPDX-License-Identifier: Apache-2.0
"""Times and bandwidths as people write them."""

import re
from collections.abc import Mapping

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_BYTES_PER_SECOND = {
    f"{prefix}{unit}": factor * size
    for prefix, factor in (("k", 1e3), ("M", 1e6), ("G", 1e9))
    for unit, size in (("bps", 1 / 8), ("B/s", 1.0))
}


def parse_seconds(text: str) -> float:
    """Return the seconds of a text, or raise ValueError.

    Example:
        >>> parse_seconds("30ms")
        0.03
    """
    return _parse(text, _SECONDS, "30ms or 0.5s")


def parse_bandwidth(text: str) -> float:
    """Return the bytes per second of a text, or raise ValueError.

    Example:
        >>> parse_bandwidth("5Gbps"), parse_bandwidth("200MB/s")
        (625000000.0, 200000000.0)
    """
    return _parse(text, _BYTES_PER_SECOND, "5Gbps or 200MB/s")


def _parse(text: str, units: Mapping[str, float], example: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *(\S+)", text.strip())
    if not found or found[2] not in units or not float(found[1]):
        raise ValueError(
            f"expected a number above 0 and one of {', '.join(units)}, such as {example}; "
            f"got {text!r}"
        )
    return float(found[1]) * units[found[2]]

# SPDX-License-Identifier: Apache-2.0
"""What all processes must agree on before they load parts of one batch.

The one place that talks to other processes, always on the caller's thread, and only in `build`.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from tfjax_batches.errors import AgreementError

T = TypeVar("T")
Facts = Mapping[str, Any]


def exchange(text: str) -> list[str]:
    """Return the texts of all processes, in order of process index. Every process must call it."""
    if jax.process_count() == 1:
        return [text]
    data = np.frombuffer(text.encode(), np.uint8)
    sizes = np.asarray(multihost_utils.process_allgather(np.int32(data.size)))  # [processes]
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: data.size] = data
    gathered = np.asarray(multihost_utils.process_allgather(padded))  # [processes, longest]
    return [bytes(row[:size]).decode() for row, size in zip(gathered, sizes.ravel(), strict=True)]


def run_together(action: Callable[[], T]) -> T:
    """Run `action` on every process; where it fails on any, raise on all.

    Raises:
        AgreementError: `action` failed on another process; carries its message. A process on
            which it failed raises its own error.
    """
    failure: Exception | None = None
    try:
        result = action()
    except Exception as error:
        failure = error
    reports = exchange("" if failure is None else f"{type(failure).__name__}: {failure}")
    if failure is not None:
        raise failure
    failed = {index: report for index, report in enumerate(reports) if report}
    if failed:
        listed = "\n".join(f"  process {index}: {report}" for index, report in failed.items())
        raise AgreementError(
            f"All processes build the loader or none does; on process {jax.process_index()} it "
            f"went well, but not on these:\n{listed}\nMend it there and start again."
        )
    return result


def check_agreement(facts: Facts) -> None:
    """Raise the same error on all processes when their facts differ.

    Args:
        facts: Field → JSON value, from this process.

    Raises:
        AgreementError: Names each field, its values, and the processes that hold the rarer one.
    """
    texts = exchange(json.dumps(facts, sort_keys=True))
    all_facts = [json.loads(text) for text in texts]
    differences = [
        difference
        for field in sorted({name for each in all_facts for name in each})
        if (difference := _difference(field, [json.dumps(each.get(field)) for each in all_facts]))
    ]
    if differences:
        raise AgreementError(
            "All processes load parts of one batch, so their configs and datasets are equal; "
            "these fields are not:\n" + "\n".join(f"  {line}" for line in differences) + "\n"
            "Start all processes with the same config and the same prepared dataset."
        )


def _difference(field: str, values: list[str]) -> str | None:
    counts = Counter(values)
    if len(counts) == 1:
        return None
    (common, most), (_, second) = counts.most_common(2)
    if most == second:  # no majority: nobody is the odd one
        each = "; ".join(f"process {i} has {value}" for i, value in enumerate(values))
        return f"{field}: {each}"
    odd = "; ".join(f"process {i} has {v}" for i, v in enumerate(values) if v != common)
    return f"{field}: {odd}; the other {most} have {common}"

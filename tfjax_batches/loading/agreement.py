# SPDX-License-Identifier: Apache-2.0
"""What all processes must agree on before they load parts of one batch.

Exchanges facts between processes, always on the caller's thread.
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

# Holds the facts of a build and the checksums of a batch: most exchanges are one collective.
_HEAD_BYTES = 4096
_VALUE_CHARACTERS = 300
Facts = Mapping[str, Any]


def exchange(text: str) -> list[str]:
    """Return the texts of all processes, in order of process index. Every process must call it.

    One collective where all texts are short, two otherwise.
    """
    if jax.process_count() == 1:
        return [text]
    data = text.encode()
    head = np.zeros(_HEAD_BYTES, np.uint8)
    head[:8] = np.frombuffer(len(data).to_bytes(8, "little"), np.uint8)
    first = np.frombuffer(data[: _HEAD_BYTES - 8], np.uint8)
    head[8 : 8 + first.size] = first
    heads = np.asarray(multihost_utils.process_allgather(head))  # [processes, head]
    sizes = [int.from_bytes(row[:8].tobytes(), "little") for row in heads]
    whole = heads[:, 8:]
    if (longest := max(sizes)) > whole.shape[1]:
        padded = np.zeros(longest, np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        whole = np.asarray(multihost_utils.process_allgather(padded))  # [processes, longest]
    return [row[:size].tobytes().decode() for row, size in zip(whole, sizes, strict=True)]


def run_together(action: Callable[[], T]) -> T:
    """Run `action` on every process; where it fails on any, raise on all.

    Raises:
        AgreementError: `action` failed on another process; carries its message. A process on
            which it failed raises its own error.
    """
    results: list[T] = []
    gather(lambda: results.append(action()))
    return results[0]


def run_in_turns(action: Callable[[], T]) -> T:
    """Run `action` on process 0, then on all others; where it fails on any, raise on all.

    What process 0 leaves on a disk, the others may find there.

    Raises:
        AgreementError: As for `run_together`.
    """
    results: list[T] = []
    for is_turn in (jax.process_index() == 0, jax.process_index() != 0):
        gather(lambda is_turn=is_turn: results.append(action()) if is_turn else None)  # type: ignore[misc]
    return results[0]


def gather(action: Callable[[], Any]) -> list[Any]:
    """Run `action` on every process and return the JSON values of all, by process index.

    Raises:
        AgreementError: As for `run_together`.
    """
    failure: Exception | None = None
    value = None
    try:
        value = action()
    except Exception as error:
        failure = error
    report = None if failure is None else f"{type(failure).__name__}: {failure}"
    replies = [json.loads(text) for text in exchange(json.dumps([report, value]))]
    if failure is not None:
        raise failure
    failed = {index: report for index, (report, _) in enumerate(replies) if report is not None}
    if failed:
        listed = "\n".join(f"  process {index}: {report}" for index, report in failed.items())
        raise AgreementError(
            f"All processes build or none does; process {jax.process_index()} succeeded, these "
            f"failed:\n{listed}\nFix the error there and start all processes again."
        )
    return [value for _, value in replies]


def check_agreement(facts: Facts) -> None:
    """Raise the same error on all processes when their facts differ.

    Args:
        facts: Field → JSON value, from this process.

    Raises:
        AgreementError: Names each field, its values, and the processes that hold the rarer one.
    """
    all_facts = gather(lambda: facts)
    differences = [
        difference
        for field in sorted({name for each in all_facts for name in each})
        if (difference := _difference(field, [json.dumps(each.get(field)) for each in all_facts]))
    ]
    if differences:
        raise AgreementError(
            "All processes load parts of one batch, so their configs and datasets are equal; "
            "these fields are not:\n" + "\n".join(f"  {line}" for line in differences) + "\n"
            "Start all processes with the same config, filter, transforms and prepared dataset."
        )


def _difference(field: str, values: list[str]) -> str | None:
    counts = Counter(values)
    if len(counts) == 1:
        return None
    (common, most), (_, second) = counts.most_common(2)
    if most == second:  # no majority
        each = "; ".join(f"process {i} has {_cut(value)}" for i, value in enumerate(values))
        return f"{field}: {each}"
    odd = "; ".join(f"process {i} has {_cut(v)}" for i, v in enumerate(values) if v != common)
    return f"{field}: {odd}; the other {most} have {_cut(common)}"


def _cut(value: str) -> str:
    return value if len(value) <= _VALUE_CHARACTERS else f"{value[:_VALUE_CHARACTERS]}…"

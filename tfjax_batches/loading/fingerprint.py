# SPDX-License-Identifier: Apache-2.0
"""What the rows of a run depend on, as JSON values, and which of it the rows so far depend on.

Of a mixture the rows before a position depend on the stages that began before it and on the sources
that these drew from. Later stages, and sources that start in them, may still change. So may batch
sizes that begin later.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tfjax_batches.planning.order import ORDER_VERSION
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.schedule import Schedule
from tfjax_batches.text.numbers import is_number

SIZES = "global_batch_size by step"

Fingerprint = Mapping[str, Any]
"""Field → JSON value, of all that the rows of a run depend on."""

_STAGES = "weights of all stages"
_STAGE = re.compile(r"weights from row (\d+) on")

# Where a fingerprint is longer (hundreds of features, say), its longest values are kept as digests:
# a state is under 2 KB.
_FINGERPRINT_CHARACTERS = 1800


def make_fingerprint(
    plan: BatchPlan,
    fields: Mapping[str, Any],
    sources: Mapping[str, Mapping[str, Any]] | None = None,
) -> Fingerprint:
    """Return what the rows of a run depend on.

    Args:
        plan: The order.
        fields: JSON values of what else the rows depend on. Empty ones are left out.
        sources: The same for each source of a mixture, by name. None: a run of one dataset.
    """
    known = {**fields, "remainder": plan.remainder.value, "order_version": ORDER_VERSION}
    if not plan.remainder.allows_new_batch_size:
        # There the batch size sets where epochs begin.
        known["global_batch_size"] = plan.global_batch_size
    if len(plan.schedule.sizes) > 1:
        known[SIZES] = [list(size) for size in plan.schedule.sizes]
    own = [
        {
            "num_examples": source.epochs.num_examples,
            **source.order.fingerprint,
            "filter": source.selection.fingerprint,
        }
        for source in plan.sources
    ]
    if sources is None:
        return _without_empty({**known, **own[0], "seed": plan.sources[0].seed})
    names = list(sources)
    known["sources"] = {
        name: _without_empty({**sources[name], **each})
        for name, each in zip(names, own, strict=True)
    }
    known["stages"] = [
        [start, {names[s]: weight for s, weight in enumerate(stage.weights) if weight}]
        for start, stage in plan.mixture.stages
    ]
    return _without_empty(known)


def past_of(fingerprint: Fingerprint, position: int) -> dict[str, Any]:
    """Return the fields on which the rows before a position depend.

    Those of a source are named `sources['a'].dataset`. Of the batch sizes, the first is not among
    them: while it is the only one, rows may go on in batches of another size.
    """
    stages = [(start, w) for start, w in fingerprint.get("stages", ()) if start < position]
    drawn = {name for _, weights in stages for name in weights}
    past = {n: value for n, value in fingerprint.items() if n not in ("stages", "sources")}
    if SIZES in past:
        sizes = Schedule.of(past.pop(SIZES)).sizes_before(position)
        past |= {SIZES: [list(size) for size in sizes]} if len(sizes) > 1 else {}
    past |= {f"weights from row {start} on": weights for start, weights in stages}
    for source in sorted(drawn):
        fields = fingerprint["sources"][source]
        past |= {f"sources[{source!r}].{name}": value for name, value in fields.items()}
    return past


def shorten(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields that a state may hold: with as few digests as keep them short.

    Where that is not enough, all fields of a source become one digest, then the weights of all
    stages.
    """
    for fold in (dict, _fold_sources, _fold_stages):
        fields = fold(fields)
        short = _digest_longest(fields)
        if _is_short(short):
            break
    return short


def find_differences(saved: Fingerprint, present: Fingerprint) -> dict[str, tuple[str, str]]:
    """Return the saved and the present value, as text, of each field that differs.

    Of the stages that differ only the first is among them, since others may follow from it.

    Args:
        saved: Fields as `shorten` returned them, perhaps by way of JSON.
        present: Fields as `past_of` returns them.
    """
    if any(name.startswith("sources[") and name.endswith("]") for name in saved):
        present = _fold_sources(present)
    if _STAGES in saved:
        present = _fold_stages(present)
    # As text: 0, 0.0 and False are equal in Python, and a field that is null is not a missing one.
    was, now = ({name: json.dumps(each[name]) for name in each} for each in (saved, present))
    differing = [
        name
        for name in {**was, **now}
        if not _is_same(was.get(name), now.get(name))
        and not _give_the_same_rows(name, saved.get(name), present.get(name))
    ]
    stages = {name: row for name in differing if (row := row_of_stage(name)) is not None}
    first = min(stages.values(), default=None)
    return {
        name: (was.get(name, "nothing"), now.get(name, "nothing"))
        for name in differing
        if stages.get(name, first) == first
    }


def row_of_stage(name: str) -> int | None:
    """Return the first row of the stage whose weights a field holds; None: it holds no weights."""
    found = _STAGE.fullmatch(name)
    return int(found[1]) if found else None


def find_ended(saved: Fingerprint, present: Fingerprint, row: int) -> list[str]:
    """Return the sources that have rows from a row on in one run only, the others being equal.

    Args:
        saved: As for `find_differences`.
        present: As for `find_differences`.
        row: The first row of a stage.
    """
    was, now = _weights_at(saved, row), _weights_at(present, row)
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        return []  # a digest
    are_equal = all(was[name] == now[name] for name in was.keys() & now.keys())
    return sorted(was.keys() ^ now.keys()) if are_equal else []


def _weights_at(fields: Fingerprint, row: int) -> Any:
    starts = [start for name in fields if (start := row_of_stage(name)) is not None]
    last = max((start for start in starts if start <= row), default=0)
    return fields.get(f"weights from row {last} on")


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def _is_short(fields: Mapping[str, Any]) -> bool:
    return len(json.dumps(fields)) <= _FINGERPRINT_CHARACTERS


def _digest_longest(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with digests of the longest ones, until all are short or have one."""
    short = dict(fields)
    texts = {name: json.dumps(value) for name, value in short.items()}
    for name in sorted(texts, key=lambda name: len(texts[name]), reverse=True):
        if _is_short(short):
            break
        if len(_digest(texts[name])) < len(texts[name]):
            short[name] = _digest(texts[name])
    return short


def _fold_sources(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with one digest for each source; graphs are left out (`_are_comparable`)."""
    folded: dict[str, Any] = {}
    of_source: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        source, _, field = name.rpartition("].")
        if not source:
            folded[name] = value
        elif field != "graphs":
            of_source.setdefault(f"{source}]", {})[field] = value
    return folded | {s: _sha256(json.dumps(each)) for s, each in of_source.items()}


def _fold_stages(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with one digest for all weights."""
    weights = {name: value for name, value in fields.items() if row_of_stage(name) is not None}
    others = {name: value for name, value in fields.items() if name not in weights}
    return {**others, _STAGES: _sha256(json.dumps(weights))} if weights else others


def _give_the_same_rows(name: str, was: Any, now: Any) -> bool:
    """Return whether values of a field that are not equal may pass for the same."""
    if row_of_stage(name) is not None:
        return _are_proportional(was, now)
    return _is_graphs(name) and not _are_comparable(was, now)


def _are_proportional(was: Any, now: Any) -> bool:
    """Return whether weights have exactly the same ratios, which give the same rows."""
    if not (isinstance(was, Mapping) and isinstance(now, Mapping) and was.keys() == now.keys()):
        return False
    if not all(is_number(weight) and weight > 0 for weight in [*was.values(), *now.values()]):
        return False
    return len({Fraction(was[name]) / Fraction(now[name]) for name in was}) == 1


def _is_graphs(name: str) -> bool:
    return name.rpartition(".")[2] == "graphs"


def _are_comparable(was: Any, now: Any) -> bool:
    """Return whether one release of TensorFlow traced both graphs: another may give others."""
    return isinstance(was, Mapping) and isinstance(now, Mapping) and was.keys() == now.keys()


def _is_same(was: str | None, now: str | None) -> bool:
    """Return whether two values, as JSON, are equal; either may be kept as a digest."""
    if was is None or now is None:
        return was is now
    return was == now or was == json.dumps(_digest(now)) or json.dumps(_digest(was)) == now


def _digest(text: str) -> str:
    return f"{text[:64]}… ({len(text)} characters, sha256 {_sha256(text)})"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

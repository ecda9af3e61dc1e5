# SPDX-License-Identifier: Apache-2.0
"""What is saved to resume: one position, and the fields on which the rows depend.

Owns the form of a state and the rule of what may change over a restore. The position counts rows
since step 0. So what does not change the order of rows may change (processes, mesh, device order,
prefetching, and under CARRY the batch size), and a change of anything else is refused. A state is
plain JSON of under 2 KB, and is checked whole before it is used.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from absl import logging

from tfjax_batches.errors import StateError
from tfjax_batches.planning.order import ORDER_VERSION
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.schedule import MOST_POSITIONS
from tfjax_batches.version import __version__

STATE_VERSION = 2
"""Raised whenever a state's fields, or what they mean, change."""

Fingerprint = Mapping[str, Any]
"""Field → JSON value, of all that the rows of a run depend on."""

# Where a fingerprint is longer (hundreds of features, say), its longest values are kept as digests:
# a state is under 2 KB.
_FINGERPRINT_CHARACTERS = 1800

# How to go on, for a field that differs. Others: set the field back.
_FIXES = {
    "dataset": "name the version in the config, as in dataset='mnist:3.0.1'",
    "examples": "set split to the one that resolves to these",
    "num_examples": "it follows from dataset, split and filter",
    "filter": "give build the same filter=, over the same files",
    "ops": "set preprocess back",
    "ops_version": "use the release of tfjax_batches that saved the state",
    "transforms": "give build the same transforms",
    "graphs": "give build transforms and registered ops that do the same under these names",
    "global_batch_size": "set global_batch_size back; only remainder='carry' can change it",
    "order_version": "use the release of tfjax_batches that saved the state",
}


def make_fingerprint(plan: BatchPlan, fields: Mapping[str, Any]) -> Fingerprint:
    """Return what the rows of a run depend on.

    Args:
        plan: The order.
        fields: JSON values of what else the rows depend on. Empty ones are left out.
    """
    (source,) = plan.sources
    known = {
        **fields,
        "num_examples": plan.num_examples,
        "shuffle": source.order.shuffle.value,
        "seed": source.seed,
        "remainder": plan.remainder.value,
        "order_version": ORDER_VERSION,
        "filter": source.selection.fingerprint,
    }
    if not plan.remainder.allows_new_batch_size:
        # There the batch size sets where epochs begin.
        known["global_batch_size"] = plan.global_batch_size
    return _shorten({n: value for n, value in known.items() if value not in (None, [], {})})


def make_state(position: int, fingerprint: Fingerprint, global_batch_size: int) -> dict[str, Any]:
    """Return the state after the rows before `position`: JSON, under 2 KB."""
    # A deep copy: what the caller does to it must not reach the loader.
    copied = json.loads(json.dumps(dict(fingerprint)))
    return {
        "version": STATE_VERSION,
        # These two for messages only.
        "release": __version__,
        "global_batch_size": global_batch_size,
        "position": position,
        "fingerprint": copied,
    }


def read_state(state: Any, plan: BatchPlan, fingerprint: Fingerprint) -> tuple[BatchPlan, int]:
    """Return the plan that goes on from a state, and its next step.

    Args:
        state: What `get_state` returned, perhaps through JSON and on other machines.
        plan: The order of the loader that is to go on.
        fingerprint: The fingerprint of that loader.

    Raises:
        StateError: The state is malformed, of another version, or of a run whose rows differ;
            names each field with the saved and the present value, and how to go on.
    """
    position, saved = _read_fields(state)
    _check_same_rows(saved, fingerprint, state.get("release", "unknown"))
    if position > MOST_POSITIONS:
        raise StateError(
            f"A position counts the rows of a run, up to {MOST_POSITIONS}; got {position}. "
            "Pass what get_state() returned, whole."
        )
    if plan.num_rows is not None and position > plan.num_rows:
        raise StateError(
            f"A state lies within its run; position {position} is beyond the {plan.num_rows} rows "
            f"of num_epochs={plan.sources[0].epochs.count}. Raise num_epochs, or start again with "
            "iter(loader)."
        )
    found = plan.starting_at(position)
    needs_whole_steps = not plan.remainder.allows_new_batch_size
    if found is None or (needs_whole_steps and position % plan.global_batch_size):
        raise StateError(
            f"A position lies between two batches; {position} is no multiple of "
            f"global_batch_size={plan.global_batch_size}. Pass a state as get_state() returned it."
        )
    resumed, step = found
    if state.get("global_batch_size", plan.global_batch_size) != plan.global_batch_size:
        logging.info(
            "tfjax_batches: global_batch_size was %s and is %d; the next step is %d, as if all "
            "batches before had the new size.",
            state["global_batch_size"],
            plan.global_batch_size,
            step,
        )
    return resumed, step


def _check_same_rows(saved: Fingerprint, present: Fingerprint, release: str) -> None:
    compared = {*saved, *present}
    if not _graphs_are_comparable(saved, present):
        compared -= {"graphs"}
    # As text: 0, 0.0 and False are equal in Python, and a field that is null is not a missing one.
    was, now = (
        {name: json.dumps(each[name]) for name in each if name in compared}
        for each in (saved, present)
    )
    differences = [
        f"  {name}: saved {was.get(name, 'nothing')}, now {now.get(name, 'nothing')}; "
        f"{_FIXES.get(name, f'set {name} back')}"
        for name in {**was, **now}
        if not _is_same(was.get(name), now.get(name))
    ]
    if differences:
        raise StateError(
            "A restored run delivers the rows that the saved run would have delivered; these "
            "fields change them:\n"
            + "\n".join(differences)
            + f"\nThe state was saved by release {release}. Set these back, or start again with "
            "iter(loader)."
        )


def _graphs_are_comparable(saved: Fingerprint, present: Fingerprint) -> bool:
    """Return whether one release of TensorFlow traced both: another may give other graphs."""
    was, now = saved.get("graphs"), present.get("graphs")
    return isinstance(was, Mapping) and isinstance(now, Mapping) and was.keys() == now.keys()


def _read_fields(state: Any) -> tuple[int, dict[str, Any]]:
    """Return position and fingerprint of a well-formed state."""
    advice = "Pass what get_state() returned, whole."
    if not isinstance(state, Mapping):
        raise StateError(f"A state is a dict; got {type(state).__name__}. {advice}")
    for name, kind in (("version", int), ("position", int), ("fingerprint", Mapping)):
        value = state.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise StateError(
                f"A state has a {name}, of type {kind.__name__}; got {value!r}. {advice}"
            )
    version, position = state["version"], state["position"]
    if version > STATE_VERSION:
        raise StateError(
            f"A state is read by the release that wrote it or a later one; this state has version "
            f"{version}, this release reads {STATE_VERSION}. Install a newer tfjax_batches."
        )
    if position < 0:
        raise StateError(f"A state has a position from 0; got {position}. {advice}")
    if version < STATE_VERSION:
        raise StateError(
            f"This release reads states of version {STATE_VERSION}; this state has version "
            f"{version}. If config, dataset and transforms are the same, take get_state() of a new "
            f"iterator, set its 'position' to {position}, and restore that."
        )
    try:
        fingerprint: dict[str, Any] = json.loads(json.dumps(dict(state["fingerprint"])))
    except (TypeError, ValueError) as error:
        raise StateError(
            f"A state is plain JSON; its fingerprint is not: {error}. {advice}"
        ) from None
    return position, fingerprint


def _shorten(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with as few digests as keep them under `_FINGERPRINT_CHARACTERS`."""
    texts = {name: json.dumps(value) for name, value in fields.items()}
    for name in sorted(texts, key=lambda name: len(texts[name]), reverse=True):
        if len(json.dumps(fields)) <= _FINGERPRINT_CHARACTERS:
            break
        fields = {**fields, name: _digest(texts[name])}
    return fields


def _is_same(was: str | None, now: str | None) -> bool:
    """Return whether two values, as JSON, are equal; either may be kept as a digest."""
    if was is None or now is None:
        return was is now
    return was == now or was == json.dumps(_digest(now)) or json.dumps(_digest(was)) == now


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[:64]}… ({len(text)} characters, sha256 {digest})"

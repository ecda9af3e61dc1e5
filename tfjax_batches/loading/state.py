# SPDX-License-Identifier: Apache-2.0
"""What is saved to resume: one position, and in words what the order depends on.

Owns the form of a state and the rule of what may change over a restore: the position counts rows
since step 0, so that whatever does not change the order of rows (processes, mesh, device order,
prefetching, and under CARRY the batch size) may change, and whatever does is refused. A state is
plain JSON of under 2 KB, and is checked whole before anything follows from it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tfjax_batches.errors import StateError, nearest_hint
from tfjax_batches.planning.order import ORDER_VERSION
from tfjax_batches.planning.plan import MOST_POSITIONS, BatchPlan
from tfjax_batches.planning.policies import Remainder
from tfjax_batches.planning.selection import Selection

STATE_VERSION = 1
"""Raised whenever a state's fields, or what they mean, change."""

Fingerprint = Mapping[str, Any]

# Longer values (hundreds of features, say) are kept as a digest, to hold a state under 2 KB.
_VALUE_CHARACTERS = 256

# How to go on all the same, for a field that differs.
_MENDS = {
    "dataset": "name the version in the config, as in dataset='mnist:3.0.1'",
    "examples": "set split to the one that resolves to these",
    "num_examples": "it follows from dataset, split and keep",
    "keep": "give build the same filter=, over the same files",
    "seed": "set seed back",
    "shuffle": "set shuffle back",
    "remainder": "set remainder back",
    "features": "set features back",
    "keep_on_host": "set keep_on_host back",
    "pad_to": "set pad_to back",
    "preprocess": "set preprocess back",
    "transforms": "give build the same transforms",
    "graphs": "give build transforms that do the same; these have the names of others",
    "global_batch_size": "set global_batch_size back; only remainder='carry' can change it",
    "order_version": "go on with the release of tfjax_batches that saved the state",
}


def make_fingerprint(
    plan: BatchPlan,
    *,
    dataset: str,
    examples: Sequence[str],
    features: Sequence[str],
    preprocess: str,
    keep_on_host: Sequence[str] = (),
    pad_to: Mapping[str, int] | None = None,
    transforms: Sequence[str] = (),
    graphs: Mapping[str, str] | None = None,
) -> Fingerprint:
    """Return what the rows of a run depend on, as field → JSON value.

    Args:
        plan: The order.
        dataset: Name with config and version.
        examples: Resolved absolute ranges, such as `["train[0:54000]"]`.
        features: Paths of all features.
        preprocess: The spec string.
        keep_on_host: Paths of those features that are delivered on the host.
        pad_to: Lengths of padded features. None: none is.
        transforms: Names of the transforms that are given as functions.
        graphs: Release of TensorFlow → digest of what they do, as that release traces it.
    """
    fields = {
        "dataset": dataset,
        "examples": list(examples),
        "num_examples": plan.num_examples,
        "shuffle": plan.shuffle.value,
        "seed": plan.seed,
        "remainder": plan.remainder.value,
        "features": list(features),
        "preprocess": preprocess,
        "order_version": ORDER_VERSION,
    }
    if plan.remainder is not Remainder.CARRY:
        # There the batch size sets where epochs begin.
        fields["global_batch_size"] = plan.global_batch_size
    # Only where used: states from before these fields existed say the same by their absence.
    if keep_on_host:
        fields["keep_on_host"] = list(keep_on_host)
    if pad_to:
        fields["pad_to"] = dict(pad_to)
    if transforms:
        fields["transforms"] = list(transforms)
    if graphs:
        fields["graphs"] = dict(graphs)
    return {name: _shortened(value) for name, value in fields.items()}


def with_kept(fingerprint: Fingerprint, kept: Selection) -> Fingerprint:
    """Return the fingerprint of a run over those examples alone."""
    fields = {"num_examples": len(kept.ids), "keep": [kept.name, kept.digest]}
    return {**fingerprint, **fields}


def make_state(position: int, fingerprint: Fingerprint) -> dict[str, Any]:
    """Return the state after the rows before `position`; JSON, under 2 KB."""
    # A deep copy: what the caller does to it must not reach the loader.
    copied = json.loads(json.dumps(dict(fingerprint)))
    return {"version": STATE_VERSION, "position": position, "fingerprint": copied}


def read_position(state: Any, plan: BatchPlan, fingerprint: Fingerprint) -> int:
    """Return the position that a state stands for, once all of it is found fit.

    Args:
        state: What `get_state` returned, perhaps through JSON and on other machines.
        plan: The order of the loader that is to go on.
        fingerprint: Of that loader.

    Raises:
        StateError: The state is none, is from a later version, or is of a run whose rows are
            others; names each field with the saved and the present value, and how to go on.
    """
    position, saved = _read_fields(state)
    compared = {*saved, *fingerprint}
    if not _graphs_are_comparable(saved, fingerprint):
        compared -= {"graphs"}
    # As text: 0, 0.0 and False are equal in Python, and a field that is null is not one missing.
    was, now = (
        {name: json.dumps(each[name]) for name in each if name in compared}
        for each in (saved, fingerprint)
    )
    differences = [
        f"  {name}: saved {was.get(name, 'nothing')}, now {now.get(name, 'nothing')}; "
        f"{_MENDS.get(name, 'set it back')}"
        for name in {**was, **now}
        if was.get(name) != now.get(name)
    ]
    if differences:
        raise StateError(
            "A run goes on with the rows that it would have had; the state is of other ones:\n"
            + "\n".join(differences)
            + "\nSet these back, or start anew with iter(loader)."
        )
    if position > MOST_POSITIONS:
        raise StateError(
            f"A position counts the rows of a run, up to {MOST_POSITIONS}; got {position}. "
            "Pass what get_state() returned, whole."
        )
    if plan.num_rows is not None and position > plan.num_rows:
        raise StateError(
            f"A state lies within its run; position {position} is beyond the {plan.num_rows} rows "
            f"of num_epochs={plan.num_epochs}. Raise num_epochs, or start anew with iter(loader)."
        )
    if plan.remainder is not Remainder.CARRY and position % plan.global_batch_size:
        raise StateError(
            f"A position lies between two batches; {position} is no multiple of "
            f"global_batch_size={plan.global_batch_size}. Pass a state as get_state() returned it."
        )
    return position


def _graphs_are_comparable(saved: Fingerprint, present: Fingerprint) -> bool:
    """Return whether both tell graphs of one release of TensorFlow: others trace other ones."""
    was, now = saved.get("graphs"), present.get("graphs")
    return isinstance(was, Mapping) and isinstance(now, Mapping) and was.keys() == now.keys()


def _read_fields(state: Any) -> tuple[int, dict[str, Any]]:
    """Return position and fingerprint of a well-formed state."""
    advice = "Pass what get_state() returned, whole."
    if not isinstance(state, Mapping):
        raise StateError(f"A state is a dict; got {type(state).__name__}. {advice}")
    version = state.get("version")
    if type(version) is int and version > STATE_VERSION:
        raise StateError(
            f"A state is read by the release that wrote it or a later one; this state has version "
            f"{version}, this release knows up to {STATE_VERSION}. Install a newer tfjax_batches."
        )
    known = {"version": int, "position": int, "fingerprint": Mapping}
    for name in state:
        if name not in known:
            hint = nearest_hint(str(name), known)
            raise StateError(f"A state has the fields {list(known)}; got {name!r} too. {hint}")
    for name, kind in known.items():
        value = state.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise StateError(
                f"A state has the fields {list(known)}; {name} is {value!r}, not of type "
                f"{kind.__name__}. {advice}"
            )
    if version != STATE_VERSION or state["position"] < 0:
        raise StateError(
            f"A state has version 1 to {STATE_VERSION} and a position from 0; got version "
            f"{version} and position {state['position']}. {advice}"
        )
    fingerprint = dict(state["fingerprint"])
    try:
        json.dumps(fingerprint)
    except (TypeError, ValueError) as error:
        raise StateError(
            f"A state is plain JSON; its fingerprint is not: {error}. {advice}"
        ) from None
    return state["position"], fingerprint


def _shortened(value: Any) -> Any:
    text = json.dumps(value)
    if len(text) <= _VALUE_CHARACTERS:
        return value
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[:64]}… ({len(text)} characters, sha256 {digest})"

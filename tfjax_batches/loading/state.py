# SPDX-License-Identifier: Apache-2.0
"""What is saved to resume: one position, and the fields on which the rows depend.

Owns the form of a state and the rule of what may change over a restore. The position counts rows
since step 0. So what does not change the order of rows may change (processes, mesh, device order,
prefetching, and under CARRY the batch size), and a change of anything else is refused. Of batch
sizes by step, those of past steps are kept, so that steps keep their numbers. A state is plain JSON
of under 2 KB, and is checked whole before it is used.
"""

import json
from collections.abc import Mapping
from typing import Any

from absl import logging

from tfjax_batches.errors import StateError
from tfjax_batches.loading.fingerprint import (
    SIZES,
    Fingerprint,
    find_differences,
    find_ended,
    past_of,
    row_of_stage,
    shorten,
)
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.schedule import MOST_POSITIONS
from tfjax_batches.version import __version__

STATE_VERSION = 2
"""Raised whenever a state's fields, or what they mean, change."""

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
    "weights of all stages": "set the weights of past steps, and max_epochs, back",
    "order_version": "use the release of tfjax_batches that saved the state",
}


def make_state(position: int, fingerprint: Fingerprint, global_batch_size: int) -> dict[str, Any]:
    """Return the state after the rows before `position`: JSON, under 2 KB for up to 20 sources."""
    # A deep copy: what the caller does to it must not reach the loader.
    copied = json.loads(json.dumps(shorten(past_of(fingerprint, position))))
    return {
        "version": STATE_VERSION,
        "release": __version__,  # for messages only
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
    if position > MOST_POSITIONS:
        raise StateError(
            f"A position counts the rows of a run, up to {MOST_POSITIONS}; got {position}. "
            "Pass what get_state() returned, whole."
        )
    if plan.num_rows is not None and position > plan.num_rows:
        raise StateError(
            f"A state lies within its run; position {position} is beyond the {plan.num_rows} rows "
            f"{_end_text(plan, fingerprint)}, or start again with iter(loader)."
        )
    past = past_of(fingerprint, position)
    has_sizes = SIZES in saved or SIZES in fingerprint
    if position and (has_sizes or any(map(_is_of_stage, find_differences(saved, past)))):
        # One size, which states do not keep by step; stages begin at steps of that size.
        saved.setdefault(SIZES, [[0, state.get("global_batch_size", plan.global_batch_size)]])
        past.setdefault(SIZES, [[0, plan.global_batch_size]])
    _check_same_rows(saved, past, state.get("release", "unknown"), plan)
    found = plan.starting_at(position)
    needs_whole_steps = not plan.remainder.allows_new_batch_size
    if found is None or (needs_whole_steps and position % plan.global_batch_size):
        raise StateError(
            f"A position lies between two batches; {position} begins no step of "
            f"global_batch_size={_size_text(plan)}. Go on with the global_batch_size of the run "
            "that was saved, one number, or pass a state as get_state() returned it."
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


def _is_of_stage(name: str) -> bool:
    """Return whether a field is that of the weights of a stage."""
    return row_of_stage(name) is not None


def _end_text(plan: BatchPlan, fingerprint: Fingerprint) -> str:
    """Return what ends a run, and how to make it longer."""
    if "stages" in fingerprint:
        return "of the run. Set exhausted and max_epochs of the sources back"
    return f"of num_epochs={plan.sources[0].epochs.count}. Raise num_epochs"


def _check_same_rows(saved: Fingerprint, past: Fingerprint, release: str, plan: BatchPlan) -> None:
    found = find_differences(saved, past)
    if SIZES in found:  # what else differs may follow from it
        found = {SIZES: found[SIZES]}
    differences = [
        f"  {name}: saved {was}, now {now}; {_fix_of(name, saved, past, plan)}"
        for name, (was, now) in found.items()
    ]
    if differences:
        raise StateError(
            "A restored run delivers the rows that the saved run would have delivered; these "
            "fields change them:\n"
            + "\n".join(differences)
            + f"\nThe state was saved by release {release}. Set these back, or start again with "
            "iter(loader)."
        )


def _fix_of(name: str, saved: Fingerprint, past: Fingerprint, plan: BatchPlan) -> str:
    if (row := row_of_stage(name)) is not None:
        where = f"the weights of step {plan.schedule.fraction_of(row):g}"
        if ended := ", ".join(map(repr, find_ended(saved, past, row))):
            return f"set max_epochs of {ended} back if it was used up there, or else {where}"
        return f"set {where} back: only later stages may change"
    if name == SIZES:
        return f"set {_other_size(saved, past)} back: only those of later steps may change"
    field = name.rpartition(".")[2]
    if field in ("block_size", "block_columns") and name in saved:
        return f"set {name} to {saved[name]}"
    return _FIXES.get(field, f"set {name} back")


def _other_size(saved: Fingerprint, past: Fingerprint) -> str:
    """Return what to set back: the first size that differs, or all where they are a digest."""
    each = [{tuple(size) for size in f[SIZES]} for f in (saved, past) if isinstance(f[SIZES], list)]
    if len(each) < 2:
        return "the sizes of these steps"
    return f"the size of step {min(step for step, _ in each[0] ^ each[1])}"


def _size_text(plan: BatchPlan) -> str:
    sizes = plan.schedule.sizes
    return str(plan.global_batch_size if len(sizes) == 1 else list(sizes))


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

# SPDX-License-Identifier: Apache-2.0
"""Whether the weights of a mixture are those of its sources, in stages that follow each other."""

from collections.abc import Collection
from typing import Any

from tfjax_batches.config.field_checks import as_dict, rise_from_zero
from tfjax_batches.errors import nearest_hint
from tfjax_batches.text.numbers import is_number

Stages = tuple[tuple[int, dict[str, float]], ...]
"""(First step, weight by name) of each stage, in order of the step, from step 0."""


def check_weights(value: Any, names: Collection[str]) -> tuple[Stages, list[str]]:
    """Return the stages that `weights` means, and a sentence for each error.

    Args:
        value: Weights by name, or a list of (first step, weights by name).
        names: Names of the sources.
    """
    given = [(0, value)] if as_dict(value) is not None else value
    if not isinstance(given, list | tuple) or not given or not all(map(_is_pair, given)):
        return (), [
            f"weights must map names of sources to numbers; got {value!r}. Write {{'a': 0.7, "
            "'b': 0.3}, or stages by step, [(0, {'a': 1}), (1000, {'a': 0.7, 'b': 0.3})]."
        ]
    errors, stages = [], []
    if not rise_from_zero(steps := [step for step, _ in given]):
        errors.append(
            "weights must begin at step 0, and each stage at a later whole step below 2**31; got "
            f"steps {steps}. Sort the stages, and begin with (0, {{…}})."
        )
    for step, weights in given:
        named = as_dict(weights) or {}
        where = "weights" if len(given) == 1 else f"weights from step {step} on"
        errors += _check_stage(where, named, names)
        if not errors:
            stages.append((int(step), {name: float(named[name]) for name in sorted(named)}))
    used = {name for _, weights in given for name in (as_dict(weights) or {})}
    if used and (unused := [name for name in names if name not in used]):
        listed = ", ".join(map(repr, unused))
        errors.append(
            f"weights must name each source; they do not name {listed}. Give weights to all, or "
            "leave sources out."
        )
    return tuple(stages), errors


def _is_pair(stage: Any) -> bool:
    return isinstance(stage, list | tuple) and len(stage) == 2


def _check_stage(where: str, weights: dict[Any, Any], names: Collection[str]) -> list[str]:
    if not weights:
        example = dict.fromkeys(names, 1) or {"a": 1}
        return [f"{where} must have a source; got none. Write {example}."]
    errors = []
    for name, weight in weights.items():
        if names and name not in names:
            hint = nearest_hint(str(name), names)
            errors.append(f"{where} must name sources; {name!r} is not one. {hint}")
        if not is_number(weight) or not 0 < weight < 2**63:
            errors.append(
                f"{where} must be numbers above 0 and below 2**63; got {name!r}: {weight!r}. "
                "Write such a number, or leave the source out of a stage in which it has no row."
            )
    return errors

# SPDX-License-Identifier: Apache-2.0
"""The shapes of blocks that a saved run chose, which a restored run keeps.

They follow from batch sizes and the number of sources, which may change over a restore: chosen
anew, they would change the rows.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfjax_batches.loading.fingerprint import Fingerprint
from tfjax_batches.planning.block_order import BlockOrder
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.text.numbers import is_integer


def keep_shapes(
    plan: BatchPlan, fingerprint: Fingerprint, state: Any
) -> tuple[BatchPlan, Fingerprint]:
    """Return plan and fingerprint with the shapes that a state has, where these were chosen.

    Args:
        plan: The order of the loader that is to go on.
        fingerprint: The fingerprint of that loader.
        state: What `get_state` returned, not checked yet.
    """
    saved = state.get("fingerprint") if isinstance(state, Mapping) else None
    if not isinstance(saved, Mapping):
        return plan, fingerprint
    names = list(fingerprint.get("sources", ()))
    sources, kept = list(plan.sources), dict(fingerprint)
    for number, source in enumerate(plan.sources):
        prefix = f"sources[{names[number]!r}]." if names else ""
        if not isinstance(order := source.order, BlockOrder):
            continue
        found = {field: saved.get(prefix + field) for field in order.shape.chosen}
        values: dict[str, Any] = {f: v for f, v in found.items() if is_integer(v, 1, 2**31 - 1)}
        shape = dataclasses.replace(order.shape, **values)
        sources[number] = dataclasses.replace(source, order=dataclasses.replace(order, shape=shape))
        if names:
            own = {**kept["sources"][names[number]], **values}
            kept["sources"] = {**kept["sources"], names[number]: own}
        else:
            kept |= values
    return dataclasses.replace(plan, sources=tuple(sources)), kept

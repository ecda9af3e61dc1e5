# SPDX-License-Identifier: Apache-2.0
"""Partition specs as plain values, and those that a batch cannot have."""

from typing import Any

import pytest
from jax.sharding import PartitionSpec

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.partition_spec import to_entries


def test_to_entries_are_those_of_the_spec() -> None:
    assert to_entries(PartitionSpec("a", None, ("b", "c"))) == ("a", None, ("b", "c"))
    assert to_entries([["a", "b"], None]) == (("a", "b"), None)
    assert to_entries(PartitionSpec()) == ()


@pytest.mark.parametrize("kind", ["reduced", "unreduced"])
def test_to_entries_reduced_axes_are_refused(kind: str) -> None:
    axes: dict[str, Any] = {kind: {"b"}}
    with pytest.raises(LayoutError, match=rf"splits? each dim; got .*{kind}=.*Leave reduced="):
        to_entries(PartitionSpec("a", **axes))


@pytest.mark.parametrize("spec", [None, 5, (5,), PartitionSpec(PartitionSpec.UNCONSTRAINED)])
def test_to_entries_of_another_kind_are_refused(spec: Any) -> None:
    with pytest.raises(LayoutError, match=r"None, an axis or a tuple of axes; got .*Name the mesh"):
        to_entries(spec)

# SPDX-License-Identifier: Apache-2.0
"""Meshes and partition specs as text."""

import pytest

from tfjax_batches.errors import LayoutError
from tfjax_batches.planning.mesh_text import parse_mesh_shape, parse_partition_spec
from tfjax_batches.planning.partition_spec import PartitionEntries


def test_parse_mesh_shape_keeps_the_order_of_axes() -> None:
    assert list(parse_mesh_shape(" model=2 , data = 4").items()) == [("model", 2), ("data", 4)]


@pytest.mark.parametrize(
    ("text", "devices", "shape"),
    [
        ("data=-1,model=1", 4, {"data": 4, "model": 1}),
        ("data=2,model=-1", 8, {"data": 2, "model": 4}),
        ("data=2,model=2", 4, {"data": 2, "model": 2}),
    ],
)
def test_parse_mesh_shape_fills_the_open_axis(
    text: str, devices: int, shape: dict[str, int]
) -> None:
    assert parse_mesh_shape(text, devices) == shape


@pytest.mark.parametrize(
    ("text", "devices", "message"),
    [
        ("data", None, "such as data=4,model=2; got 'data', which is wrong at 'data'"),
        ("data=x", None, "wrong at 'data=x'"),
        ("data=0", None, "wrong at 'data=0'"),
        ("data=2,data=2", None, "wrong at 'data=2'"),
        ("", None, "wrong at ''"),
        ("data=2,", None, "wrong at ''"),
        ("data=-1", None, "'data=-1' with num_devices=None"),
        ("data=-1,model=-1", 4, "one of them may be -1; got 'data=-1,model=-1'"),
        ("data=3", 4, "'data=3' with num_devices=4. Change the sizes, or give one as -1."),
        ("data=-1,model=3", 4, "with num_devices=4"),
        ("data=-1,model=8", 4, "with num_devices=4"),
    ],
)
def test_parse_mesh_shape_that_is_none_is_refused(
    text: str, devices: int | None, message: str
) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_mesh_shape(text, devices)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("data", ("data",)),
        ("host + device, -, seq", (("host", "device"), None, "seq")),
        (",model", (None, "model")),
        ("", (None,)),
    ],
)
def test_parse_partition_spec_any_form(text: str, spec: PartitionEntries) -> None:
    assert parse_partition_spec(text) == spec


@pytest.mark.parametrize("text", ["data+", "da ta", "data,1x"])
def test_parse_partition_spec_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LayoutError, match=r"such as host\+device,-,seq; got .* Correct it\."):
        parse_partition_spec(text)

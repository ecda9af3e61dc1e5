# SPDX-License-Identifier: Apache-2.0
"""Op strings name the ops in the table: the library's, and the user's own alike."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfjax_batches.errors import BatchesError, ConfigError
from tfjax_batches.preprocess.ops.op_table import OPS
from tfjax_batches.preprocess.registry import (
    build_transforms,
    describe_ops,
    is_library_op,
    register_op,
)
from tfjax_batches.preprocess.transforms import MapBatches, MapExamples

LIBRARY = dict(OPS)


@pytest.fixture
def own_ops() -> Iterator[None]:
    """Lets a test register ops, and takes them out of the table after it."""
    yield
    OPS.clear()
    OPS.update(LIBRARY)


def test_build_transforms_are_named_by_their_calls() -> None:
    transforms = build_transforms("flip_lr() | value_range( -1, hi=1 )|keep('image')")
    assert [t.name for t in transforms] == ["flip_lr", "value_range(-1, hi=1)", "keep('image')"]
    assert [t.random for t in transforms] == [True, False, False]


@pytest.mark.parametrize(
    ("ops", "place", "texts"),
    [
        ("cast('int32')|flip", 14, ["there is no 'flip'", "Did you mean 'flip_lr'?"]),
        ("open('x')", 0, ["there is no 'open'", "Known: "]),
        ("__import__('os')", 0, ["there is no '__import__'"]),
        (
            "flip_lr|resize()",
            8,
            [
                "missing 1 required positional",
                "'size'",
                "resize(size, method='bilinear', antialias=",
            ],
        ),
        ("resize(4, sise=3)", 0, ["unexpected keyword argument 'sise'", "signature is resize("]),
        (
            "flip_lr|resize(0)",
            8,
            ["resize refuses these", "size must be a side", "got 0"],
        ),
        ("resize(True)", 0, ["got True"]),
        ("resize(4, 'cubic')", 0, ["method must be one of", "got 'cubic'"]),
        ("decode(channels=2)", 0, ["channels must be one of 3, 1, 4"]),
        ("decode(channels=3.0)", 0, ["channels must be one of 3, 1, 4; got 3.0"]),
        ("decode(channels=True)", 0, ["channels must be one of 3, 1, 4; got True"]),
        (
            "decode_random_crop(8, area=(0.5, 2))",
            0,
            ["area", "<= 1", "got (0.5, 2)"],
        ),
        ("decode_random_crop(8, ratio=(2, 1))", 0, ["ratio must be (low, high)", "got (2, 1)"]),
        (
            "decode_central_crop(8, resize=7)",
            0,
            ["resize", "from 8 to 65536; got 7"],
        ),
        ("value_range('a', 1)", 0, ["lo must be a number; got 'a'"]),
        ("value_range(0, 1e999)", 0, ["hi must be a number; got inf"]),
        ("normalize((), 1)", 0, ["mean must be a number", "got ()"]),
        ("normalize(0, 1, scale=0)", 0, ["scale must be a number above 0; got 0"]),
        ("normalize(0, 0)", 0, ["std must be a number above 0; got 0"]),
        ("cast('flaot32')", 0, ["dtype must be one of", "got 'flaot32'"]),
        ("one_hot(0)", 0, ["num_classes must be an integer from 1 to"]),
        ("mixup(0)", 0, ["alpha must be a number above 0; got 0"]),
        (
            "cutout(4, key='')",
            0,
            ["key must be the name of a feature, or the tuple of its keys; got ''"],
        ),
        ("keep()", 0, ["paths must be a tuple of feature names; got ()"]),
        ("drop(('a', ''))", 0, ["paths must be the name of a feature", "got ('a', '')"]),
        ("byte_tokens(eos=1)", 0, ["eos must be one of True, False; got 1"]),
        ("pad(2.0)", 0, ["length must be an integer"]),
    ],
)
def test_build_transforms_error_shows_place_and_fix(ops: str, place: int, texts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        build_transforms(ops)
    message = str(caught.value)
    assert all(text in message for text in texts), message
    assert message.split("\n")[2].index("^") == place + 2


@pytest.mark.usefixtures("own_ops")
def test_register_op_makes_a_name_known() -> None:
    @register_op
    def invert(key: str = "image") -> MapBatches:
        return MapBatches(lambda batch: {**batch, key: 255 - batch[key]})

    @register_op(name="half")
    def halve() -> MapExamples:
        return MapExamples(lambda example: example)

    assert invert().fn({"image": 5}) == {"image": 250}  # still the function
    names = [t.name for t in build_transforms("invert(key='a')|half")]
    assert names == ["invert(key='a')", "half"]
    assert set(OPS) - set(LIBRARY) == {"invert", "half"}
    assert [is_library_op(name) for name in ("invert", "flip_lr", "none")] == [False, True, False]


@pytest.mark.usefixtures("own_ops")
def test_register_op_again_replaces_the_function_of_one_qualified_name() -> None:
    cell = "def own(key='a'):\n    return MapBatches({}, random={})"
    for fn, random in (("dict", False), ("lambda b, s: b", True)):  # a cell is edited and run again
        scope: dict[str, Any] = {"MapBatches": MapBatches, "__name__": "__main__"}
        exec(cell.format(fn, random), scope)
        register_op(scope["own"])
        assert build_transforms("own")[0].random == random
    for module, name in (("other", "own"), ("__main__", "another")):
        scope = {"MapBatches": MapBatches, "__name__": module}
        exec(cell.format("dict", False).replace("own", name), scope)
        with pytest.raises(ConfigError, match=rf"'own' is __main__\.own, and {module}\.{name} is"):
            register_op(scope[name], name="own")
    assert build_transforms("own")[0].random


@pytest.mark.usefixtures("own_ops")
def test_register_op_does_not_replace_an_op_of_the_library() -> None:
    def flip_lr() -> MapBatches:
        raise AssertionError

    with pytest.raises(ConfigError, match=r"'flip_lr' is tfjax_batches.*name='my_flip_lr'"):
        register_op(flip_lr)
    assert build_transforms("flip_lr")


@pytest.mark.parametrize("name", ["a b", "", "None", "lambda", "1a", 3])
def test_register_op_a_name_that_is_not_an_identifier_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=r"identifier for a name; .*Write @register_op"):
        register_op(MapBatches, name=name)


def test_register_op_refuses_what_is_not_a_function() -> None:
    with pytest.raises(ConfigError, match=r"register_op takes a function.*got 'x'"):
        register_op("x")  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"identifier for a name; .*the name '<lambda>'"):
        register_op(lambda: MapBatches(len))


@pytest.mark.usefixtures("own_ops")
def test_build_transforms_an_op_that_returns_no_transform_is_named() -> None:
    register_op(lambda: {}, name="wrong")  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match=r"wrong returned \{\}(.|\n)*Change tests.*<lambda>"):
        build_transforms("wrong")


@pytest.mark.usefixtures("own_ops")
@pytest.mark.parametrize("error", [KeyError("x"), AttributeError("x"), OSError("x")])
def test_build_transforms_an_op_that_raises_is_shown(error: Exception) -> None:
    def broken() -> MapBatches:
        raise error

    register_op(broken)
    with pytest.raises(ConfigError, match=rf"broken refuses(.|\n)*\^\n{type(error).__name__}: "):
        build_transforms("flip_lr|broken")


def test_describe_ops_has_a_line_for_each() -> None:
    text = describe_ops()
    assert "value_range(lo, hi, key='image')\n    Map integer values" in text
    assert "decode_random_crop(size, area=(0.08, 1.0), ratio=(0.75, 1.33" in text


LITERALS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**64), 2**64),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(["image", "a/b", "float32"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=4,
)


@settings(max_examples=2_000)
@given(st.sampled_from(sorted(LIBRARY)), st.lists(LITERALS, max_size=4))
def test_build_transforms_any_literals_are_answered(name: str, arguments: list[Any]) -> None:
    ops = f"{name}({', '.join(map(repr, arguments))})"
    try:
        (transform,) = build_transforms(ops)
    except BatchesError:
        return
    assert isinstance(transform, MapExamples | MapBatches)

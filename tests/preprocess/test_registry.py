# SPDX-License-Identifier: Apache-2.0
"""Specs name ops, and nothing else; the user's own are known like the rest."""

import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfjax_batches.errors import BatchesError, ConfigError
from tfjax_batches.preprocess import registry
from tfjax_batches.preprocess.ops import OPS
from tfjax_batches.preprocess.registry import build_transforms, describe_ops, register_op
from tfjax_batches.preprocess.transforms import MapBatches, MapExamples


@pytest.fixture
def own_ops(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A table of ops that the test may add to."""
    table = dict(registry._OPS)
    monkeypatch.setattr(registry, "_OPS", table)
    return table


def test_build_transforms_are_named_as_the_spec_has_them() -> None:
    transforms = build_transforms("flip_lr | value_range( -1, hi=1 )|keep('image')")
    assert [t.name for t in transforms] == ["flip_lr", "value_range( -1, hi=1 )", "keep('image')"]
    assert [t.random for t in transforms] == [True, False, False]


@pytest.mark.parametrize(
    ("spec", "place", "texts"),
    [
        ("cast('int32')|flip", 14, ["there is no 'flip'", "Did you mean 'flip_lr'?"]),
        ("open('x')", 0, ["there is no 'open'", "Known: "]),
        ("__import__('os')", 0, ["there is no '__import__'"]),
        (
            "flip_lr|resize()",
            8,
            ["missing a required argument: 'size'", "resize(size, method='bilinear', antialias="],
        ),
        ("resize(4, sise=3)", 0, ["unexpected keyword argument 'sise'", "Write it as in resize("]),
        ("flip_lr|resize(0)", 8, ["resize cannot take these", "size is a side in pixels", "got 0"]),
        ("resize(True)", 0, ["got True"]),
        ("resize(4, 'cubic')", 0, ["method is one of", "got 'cubic'"]),
        ("decode(channels=2)", 0, ["channels is 1, 3 or 4"]),
        ("decode(channels=3.0)", 0, ["channels is 1, 3 or 4; got 3.0"]),
        ("decode(channels=True)", 0, ["channels is 1, 3 or 4; got True"]),
        ("mixup(1.0, 'a', 'a')", 0, ["key and label are both 'a'"]),
        ("decode_random_crop(8, area=(0.5, 2))", 0, ["area is (low, high)", "up to 1"]),
        ("decode_random_crop(8, ratio=(2, 1))", 0, ["ratio is (low, high)", "got (2, 1)"]),
        ("decode_central_crop(8, resize=7)", 0, ["resize is an integer, 8 to 65536; got 7"]),
        ("value_range('a', 1)", 0, ["lo is a number; got 'a'"]),
        ("value_range(0, 1e999)", 0, ["hi is a number; got inf"]),
        ("normalize((), 1)", 0, ["mean is a number, or one of each channel; got ()"]),
        ("normalize(0, 0)", 0, ["std is above 0; got 0"]),
        ("cast('flaot32')", 0, ["dtype is one of", "got 'flaot32'"]),
        ("one_hot(0)", 0, ["num_classes is an integer, 1 to"]),
        ("mixup(0)", 0, ["alpha is a number above 0; got 0"]),
        ("cutout(4, key='')", 0, ["key is the path of a feature; got ''"]),
        ("keep()", 0, ["keep names features; got none"]),
        ("drop('a//b')", 0, ["path is the path of a feature; got 'a//b'"]),
        ("byte_tokens(eos=1)", 0, ["eos is True or False; got 1"]),
        ("pad(2.0)", 0, ["length is an integer"]),
    ],
)
def test_build_transforms_fault_shows_place_and_mend(
    spec: str, place: int, texts: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        build_transforms(spec)
    message = str(caught.value)
    assert all(text in message for text in texts), message
    assert message.split("\n")[2].index("^") == place + 2


def test_register_op_makes_a_name_known(own_ops: dict) -> None:
    @register_op
    def invert(key: str = "image") -> MapBatches:
        return MapBatches(lambda batch: {**batch, key: 255 - batch[key]})

    @register_op(name="half")
    def halve() -> MapExamples:
        return MapExamples(lambda example: example)

    assert invert().fn({"image": 5}) == {"image": 250}  # still the function
    names = [t.name for t in build_transforms("invert(key='a')|half")]
    assert names == ["invert(key='a')", "half"]
    assert set(own_ops) - {op.__name__ for op in OPS} == {"invert", "half"}


def test_register_op_again_takes_the_place_of_the_old_one(own_ops: dict) -> None:
    def define(random: bool) -> None:
        @register_op
        def again() -> MapBatches:
            return MapBatches(lambda batch, *seeds: batch, random=random)

    define(random=True)
    define(random=True)
    with pytest.raises(ConfigError, match=r"An op has a name of its own; 'again' is"):
        define(random=False)
    assert build_transforms("again")[0].random
    cell = "def own(key='a'):\n    return MapBatches(dict, random={})"
    for random in (False, True):  # as when a notebook cell is edited, and run again
        scope: dict[str, Any] = {"MapBatches": MapBatches, "__name__": "cell"}
        exec(cell.format(random), scope)
        register_op(scope["own"])
    assert build_transforms("own")[0].random


def test_register_op_lambdas_are_told_apart(own_ops: dict) -> None:
    for _ in range(2):
        register_op(lambda key="a": MapBatches(dict), name="mine")
    for other in (lambda key="a": MapExamples(dict), lambda key="b": MapBatches(dict)):
        with pytest.raises(ConfigError, match=r"An op has a name of its own; 'mine' is"):
            register_op(other, name="mine")


def test_register_op_a_name_that_is_taken_is_refused(own_ops: dict) -> None:
    def flip_lr() -> MapBatches:
        raise AssertionError

    with pytest.raises(ConfigError, match=r"'flip_lr' is tfjax_batches.*name='my_flip_lr'"):
        register_op(flip_lr)
    assert build_transforms("flip_lr")


@pytest.mark.parametrize("name", ["a b", "", "None", "lambda", "1a", 3])
def test_register_op_a_name_that_no_spec_can_hold_is_refused(own_ops: dict, name: Any) -> None:
    with pytest.raises(ConfigError, match=r"is an identifier.*Give another"):
        register_op(MapBatches, name=name)


def test_register_op_what_is_no_function_is_refused(own_ops: dict) -> None:
    with pytest.raises(ConfigError, match=r"register_op takes a function.*got 'x'"):
        register_op("x")  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"register_op takes a function.*got <class 'dict'>"):
        register_op(dict)
    with pytest.raises(ConfigError, match=r"is an identifier.*got '<lambda>'"):
        register_op(lambda: MapBatches(len))


def test_build_transforms_an_op_that_returns_no_transform_is_named(own_ops: dict) -> None:
    register_op(lambda: {}, name="wrong")
    with pytest.raises(ConfigError, match=r"wrong returned \{\}(.|\n)*Mend tests.*<lambda>"):
        build_transforms("wrong")


@pytest.mark.parametrize("error", [KeyError("x"), AttributeError("x"), OSError("x")])
def test_build_transforms_an_op_that_raises_is_shown(own_ops: dict, error: Exception) -> None:
    def broken() -> MapBatches:
        raise error

    register_op(broken)
    with pytest.raises(
        ConfigError, match=rf"broken cannot take(.|\n)*\^\n{type(error).__name__}: "
    ):
        build_transforms("flip_lr|broken")


def test_describe_ops_has_a_line_for_each() -> None:
    text = describe_ops()
    assert "value_range(lo, hi, key='image')\n    Map integer values" in text
    assert "decode_random_crop(size, area=(0.08, 1.0), ratio=(0.75, 1.33" in text


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
def test_ops_say_shapes_and_arguments(op: Any) -> None:
    doc = inspect.getdoc(op) or ""
    assert "Args:" in doc
    for name in inspect.signature(op).parameters:
        assert f"{name}:" in doc


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
@given(st.sampled_from(OPS), st.lists(LITERALS, max_size=4))
def test_build_transforms_any_literals_are_answered(op: Any, arguments: list) -> None:
    spec = f"{op.__name__}({', '.join(map(repr, arguments))})"
    try:
        (transform,) = build_transforms(spec)
    except BatchesError:
        return
    assert isinstance(transform, MapExamples | MapBatches)

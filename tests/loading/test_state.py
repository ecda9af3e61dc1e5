# SPDX-License-Identifier: Apache-2.0
"""States: what may change over a restore, and what is refused by name."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfjax_batches as tjb
from tests.strategies import plans
from tfjax_batches.errors import StateError
from tfjax_batches.loading.fingerprint import Fingerprint, make_fingerprint
from tfjax_batches.loading.state import make_state, read_state
from tfjax_batches.planning.dataset_plan import plan_dataset
from tfjax_batches.planning.plan import BatchPlan
from tfjax_batches.planning.policies import Remainder, Shuffle
from tfjax_batches.planning.schedule import Schedule
from tfjax_batches.planning.selection import (
    FilteredSplit,
    Selection,
    WholeSplit,
    digest_ids,
)


def make_plan(selection: Selection | None = None, **fields: Any) -> BatchPlan:
    defaults = {"global_batch_size": 8, "shuffle": "global", "seed": 3, "num_epochs": 2}
    chosen = selection or WholeSplit(num_in_split=100)
    return plan_dataset(chosen, **{**defaults, "remainder": "carry", **fields})


PLAN = make_plan()


def fingerprint_of(plan: BatchPlan, **fields: Any) -> Fingerprint:
    kept: dict[str, Any] = {
        "dataset": "mnist/3.0.1",
        "examples": ["train[0:100]"],
        "features": ["image", "label"],
    }
    return make_fingerprint(plan, {**kept, **fields})


def state_at(position: int, plan: BatchPlan, **fields: Any) -> dict[str, Any]:
    return make_state(position, fingerprint_of(plan, **fields), plan.global_batch_size)


def rows_from(plan: BatchPlan, step: int, count: int) -> list[list[int]]:
    """Return (example, epoch) of each row from a step on."""
    parts = [plan.plan_rows(s, np.arange(plan.global_batch_size)) for s in range(step, count)]
    return [list(pair) for p in parts for pair in zip(p.examples, p.epochs, strict=True)]


@given(plans())
def test_restore_at_every_step_goes_on_with_the_tail(plan: BatchPlan) -> None:
    steps = plan.num_steps or 0
    whole = rows_from(plan, 0, steps)
    for step in range(steps + 1):
        state = json.loads(json.dumps(state_at(plan.position_of(step), plan)))
        resumed, first = read_state(state, plan, fingerprint_of(plan))
        assert (resumed, first) == (plan, step)
        assert rows_from(resumed, first, steps) == whole[step * plan.global_batch_size :]


@given(plans(remainder=Remainder.CARRY, num_epochs=st.just(3)), st.data())
def test_restore_under_carry_with_another_batch_size_goes_on_from_the_position(
    plan: BatchPlan, data: st.DataObject
) -> None:
    whole = rows_from(plan, 0, plan.num_steps or 0)
    step = data.draw(st.integers(0, plan.num_steps or 0))
    size = data.draw(st.integers(1, plan.num_examples))
    other = dataclasses.replace(plan, schedule=Schedule(sizes=((0, size),)))
    state = state_at(plan.position_of(step), plan)
    resumed, first = read_state(state, other, fingerprint_of(other))
    position = plan.position_of(step)
    assert resumed.position_of(first) == position
    tail = rows_from(resumed, first, resumed.num_steps or 0)
    length = min(len(tail), len(whole) - position)
    assert tail[:length] == whole[position : position + length]
    # Less than one batch of what the epochs hold is left.
    assert position + len(tail) > 3 * plan.num_examples - other.global_batch_size


def test_state_is_small_whatever_it_is_of() -> None:
    plan = make_plan(WholeSplit(num_in_split=10**15), seed=2**63 - 1)
    state = make_state(
        2**62,
        fingerprint_of(
            plan,
            features=[f"a_long_feature_name/{i}" for i in range(500)],
            examples=[f"train[{i}:{i + 1}]" for i in range(500)],
            ops=[["decode", [], {}]] * 200,
        ),
        PLAN.global_batch_size,
    )
    assert len(json.dumps(state)) < 2048


def test_long_values_that_differ_anywhere_are_told_apart() -> None:
    names = [f"feature_{i}" for i in range(500)]
    state = state_at(8, PLAN, features=names)
    with pytest.raises(StateError, match="features: saved"):
        read_state(state, PLAN, fingerprint_of(PLAN, features=[*names[:-1], "other"]))


def test_other_sizes_among_hundreds_are_refused_without_a_step() -> None:
    sizes = [(step, 4 + step) for step in range(300)]
    plan = make_plan(global_batch_size=sizes, num_epochs=None)
    state = state_at(plan.position_of(250), plan)
    assert len(json.dumps(state)) < 2048
    other = make_plan(global_batch_size=[*sizes[:200], (200, 8), *sizes[201:]], num_epochs=None)
    with pytest.raises(StateError, match="set the sizes of these steps back: only those of later"):
        read_state(state, other, fingerprint_of(other))


def test_dicts_of_numbers_other_than_weights_are_compared_by_value() -> None:
    state = state_at(8, PLAN, pad_to={"tokens": 128})
    with pytest.raises(StateError, match=r"pad_to: .*128.*256"):
        read_state(state, PLAN, fingerprint_of(PLAN, pad_to={"tokens": 256}))


def ops_of(dtype: str) -> list[Any]:
    """Return the ops of a usual config for ImageNet, as fingerprints hold them."""
    normalize = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "scale": 255}
    crop = {"size": 224, "area": [0.08, 1.0], "method": "bicubic"}
    others = [["flip_lr", {}], ["normalize", normalize], ["cast", {"dtype": dtype}]]
    return [["decode_random_crop", crop], *others]


def test_long_ops_that_differ_are_shown_whole() -> None:
    with pytest.raises(StateError) as caught:
        read_state(
            state_at(8, PLAN, ops=ops_of("float32")), PLAN, fingerprint_of(PLAN, ops=ops_of("int8"))
        )
    assert '"dtype": "float32"' in str(caught.value)
    assert '"dtype": "int8"' in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_value_kept_as_a_digest_is_compared_with_the_whole_value(dtype: str) -> None:
    state = state_at(8, PLAN, ops=ops_of("float32"))
    # As states held values of over 200 characters before.
    state["fingerprint"]["ops"] = (
        '[["decode_random_crop", {"size": 224, "area": [0.08, 1.0], "meth… '
        "(222 characters, sha256 cb68b008fddc7f6e)"
    )
    if dtype == "float32":
        assert read_state(state, PLAN, fingerprint_of(PLAN, ops=ops_of(dtype))) == (PLAN, 1)
    else:
        with pytest.raises(StateError, match="ops: saved"):
            read_state(state, PLAN, fingerprint_of(PLAN, ops=ops_of(dtype)))


@pytest.mark.parametrize(
    ("change", "fields", "texts"),
    [
        ({"seed": 4}, {}, ["seed: saved 3, now 4; set seed back"]),
        ({"shuffle": Shuffle.NONE}, {}, ['shuffle: saved "global", now "none"']),
        ({"remainder": Remainder.PAD}, {}, ['remainder: saved "carry", now "pad"']),
        ({}, {"dataset": "mnist/4.0.0"}, ['dataset: saved "mnist/3.0.1", now "mnist/4.0.0"']),
        (
            {"selection": WholeSplit(num_in_split=90)},
            {"examples": ["train[0:90]"]},
            ['examples: saved ["train[0:100]"], now ["train[0:90]"]', "num_examples: saved 100"],
        ),
        ({}, {"features": ["label"]}, ['features: saved ["image", "label"], now ["label"]']),
        ({}, {"ops": [["flip_lr", [], {}]]}, ['ops: saved nothing, now [["flip_lr", [], {}]]']),
    ],
)
def test_state_of_other_rows_is_refused_by_field(
    change: dict[str, Any], fields: dict[str, Any], texts: list[str]
) -> None:
    now = make_plan(**change)
    with pytest.raises(StateError) as caught:
        read_state(
            state_at(8, PLAN),
            now,
            fingerprint_of(now, **fields),
        )
    message = str(caught.value)
    assert "restored run" in message
    assert "iter(loader)" in message
    assert f"release {tjb.__version__}" in message
    for text in texts:
        assert text in message


@pytest.mark.parametrize("remainder", [Remainder.DROP, Remainder.PAD])
def test_other_batch_size_is_refused_where_it_moves_the_epochs(remainder: Remainder) -> None:
    plan = make_plan(remainder=remainder)
    other = make_plan(remainder=remainder, global_batch_size=4)
    with pytest.raises(StateError, match=r"global_batch_size: saved 8, now 4; .*carry"):
        read_state(
            state_at(8, plan),
            other,
            fingerprint_of(other),
        )


def test_num_epochs_may_change_but_not_to_before_the_position() -> None:
    state = state_at(104, PLAN)
    endless, shorter = (make_plan(num_epochs=n) for n in (None, 1))
    assert read_state(state, endless, fingerprint_of(endless)) == (endless, 13)
    with pytest.raises(StateError, match=r"104 is beyond the 100 rows of num_epochs=1\. Raise"):
        read_state(state, shorter, fingerprint_of(shorter))


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (None, "A state is a dict; got NoneType"),
        ('{"version": 2}', "A state is a dict; got str."),
        ({}, "version, of type int; got None"),
        ({"version": 3, "position": 8, "fingerprint": {}}, "version 3, this release reads 2"),
        ({"version": "2", "position": 8, "fingerprint": {}}, "version, of type int; got '2'"),
        ({"version": 2, "fingerprint": {}}, "position, of type int; got None"),
        ({"version": 2, "position": 8}, "fingerprint, of type Mapping; got None"),
        ({"version": 2, "position": 8.0, "fingerprint": {}}, "position, of type int; got 8.0"),
        ({"version": 2, "position": True, "fingerprint": {}}, "position, of type int; got True"),
        ({"version": 2, "position": -8, "fingerprint": {}}, "position from 0; got -8"),
        ({"version": 2, "position": 8, "fingerprint": {}}, "seed: saved nothing, now 3"),
        (
            {"version": 2, "position": 8, "fingerprint": {**fingerprint_of(PLAN), "zz": None}},
            "zz: saved null, now nothing; set zz back",
        ),
        (
            {"version": 2, "position": 8, "fingerprint": {**fingerprint_of(PLAN), "seed": 3.0}},
            "seed: saved 3.0, now 3",
        ),
        (
            {"version": 2, "position": 8, "fingerprint": {**fingerprint_of(PLAN), "seed": {1}}},
            "A state is plain JSON; its fingerprint is not",
        ),
        (
            {"version": 2, "position": 10**30, "fingerprint": fingerprint_of(PLAN)},
            "A position counts the rows of a run",
        ),
    ],
)
def test_malformed_state_is_refused(state: Any, text: str) -> None:
    with pytest.raises(StateError) as caught:
        read_state(state, PLAN, fingerprint_of(PLAN))
    assert text in str(caught.value)


def test_state_of_version_1_says_how_to_go_on_and_that_works() -> None:
    old = {"version": 1, "position": 16, "fingerprint": {"preprocess": ""}}
    with pytest.raises(StateError, match=r"has version 1\..*get_state\(\).*'position' to 16"):
        read_state(old, PLAN, fingerprint_of(PLAN))
    new = {**state_at(0, PLAN), "position": 16}
    assert read_state(new, PLAN, fingerprint_of(PLAN)) == (PLAN, 2)


def test_position_within_a_batch_is_refused_under_pad() -> None:
    plan = make_plan(remainder=Remainder.PAD)
    with pytest.raises(StateError, match=r"9 begins no step of global_batch_size=8"):
        read_state(state_at(9, plan), plan, fingerprint_of(plan))


def test_make_state_stays_small_where_every_field_is_long() -> None:
    """Each value just short enough to be kept whole."""
    names = [f"feature_{n:03}" for n in range(12)]
    ids = np.arange(9)
    selection = FilteredSplit(name="k" * 100, ids=ids, num_in_split=9, digest=digest_ids(ids))
    fingerprint = make_fingerprint(
        make_plan(selection, global_batch_size=2**62, seed=2**62, num_epochs=None, remainder="pad"),
        {
            "dataset": "d" * 190,
            "examples": names,
            "features": names,
            "ops": [["o" * 180, [], {}]],
            "ops_version": 1,
            "transforms": names,
            "graphs": {"2.21.0": "0" * 16},
            "keep_on_host": names,
            "pad_to": dict.fromkeys(names[:9], 16),
        },
    )
    assert "…" not in str(fingerprint)
    assert len(json.dumps(make_state(2**62, fingerprint, PLAN.global_batch_size))) < 2048


def test_state_shares_nothing_with_the_loader() -> None:
    fingerprint = fingerprint_of(PLAN)
    make_state(8, fingerprint, PLAN.global_batch_size)["fingerprint"]["features"].append("x")
    assert fingerprint == fingerprint_of(PLAN)

# SPDX-License-Identifier: Apache-2.0
"""All errors of a config at once, each with rule, value and fix."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from absl import flags
from ml_collections import ConfigDict, FrozenConfigDict, config_flags

from tfjax_batches.config.batch_config import BatchConfig, config_from
from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.policies import Remainder, Shuffle

GOOD: dict[str, Any] = {"dataset": "mnist", "global_batch_size": 8}


def test_checked_strings_become_enums_and_the_original_stays() -> None:
    config = BatchConfig(**GOOD, shuffle="none", remainder="pad")
    checked = config.checked()
    assert checked.shuffle is Shuffle.NONE
    assert checked.remainder is Remainder.PAD
    config.seed = 3
    assert checked.seed == 0


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"shuffle": "globl"},
            [
                "shuffle must be one of ['none', 'global', 'block']; got 'globl'.",
                "Did you mean 'global'?",
            ],
        ),
        (
            {"remainder": None},
            f"remainder must be one of {[each.value for each in Remainder]}; got None.",
        ),
        ({"seed": -1}, "seed must be an integer of at least 0 and below 2**63; got -1."),
        ({"seed": 2**63}, "seed must be an integer of at least 0 and below 2**63"),
        ({"seed": 1.5}, ["seed must be an integer", "got 1.5."]),
        ({"global_batch_size": 0}, "global_batch_size must be an integer of at least 1"),
        ({"global_batch_size": True}, ["global_batch_size must be an integer", "got True."]),
        (
            {"global_batch_size": [(1, 8), (5, 16)]},
            ["must begin at step 0", "got steps [1, 5]", "begin with (0, rows)"],
        ),
        ({"global_batch_size": [(0, 8), (0, 16)]}, "each size at a later step"),
        ({"global_batch_size": [(0, 8), (5.0, 16)]}, "got steps [0, 5.0]"),
        ({"global_batch_size": [(0, 8), (2**31, 16)]}, "later step below 2**31"),
        (
            {"global_batch_size": [(0, 8), (5, 0)]},
            "global_batch_size from step 5 on must be an integer of at least 1",
        ),
        (
            {"global_batch_size": [8, 16]},
            ["must be an integer, or a list of (first step, rows)", "Write [(0, 256), (10_000"],
        ),
        ({"global_batch_size": []}, "must be an integer, or a list of (first step, rows)"),
        *(
            (
                {"global_batch_size": [(0, 8), (5, 16)], "remainder": remainder},
                f"global_batch_size must be one integer under remainder={remainder!r}; got [(0, 8)",
            )
            for remainder in ("drop", "pad")
        ),
        ({"num_epochs": 0}, "num_epochs must be an integer of at least 1"),
        ({"group_size": 0}, "group_size must be an integer of at least 1"),
        ({"prefetch_depth": None}, ["prefetch_depth must be an integer", "got None."]),
        ({"prefetch_bytes": 0}, "prefetch_bytes must be an integer of at least 1"),
        (
            {"stall_seconds": 0},
            "stall_seconds must be a number above 0 and below 2**31; got 0. None turns it off.",
        ),
        ({"stall_seconds": float("nan")}, "stall_seconds must be a number above 0"),
        ({"stall_seconds": float("inf")}, "stall_seconds must be a number above 0"),
        ({"stall_seconds": True}, "stall_seconds must be a number above 0"),
        ({"with_ids": 1}, "with_ids must be True or False; got 1."),
        ({"split": 3}, "split must be a string, or a split object of TFDS"),
        ({"split": ["train", "test"]}, "Join several by +, as in 'train+test'"),
        ({"dataset": ""}, "dataset must name a TFDS dataset"),
        ({"dataset": None}, "dataset must name a TFDS dataset"),
        ({"data_dir": ""}, "data_dir must name a folder, or be None; got ''."),
        ({"data_dir": 5}, "data_dir must name a folder, or be None; got 5."),
        ({"num_epochs": 2**62}, "num_epochs must be an integer of at least 1 and below 2**31"),
        ({"num_parallel_calls": 10**9}, "at least 1 and below 2**12"),
        (
            {"features": "image"},
            "features must be a tuple of feature names; got 'image'. Write ('image',).",
        ),
        (
            {"pad_to": ("x", 3)},
            "pad_to must map feature names to lengths; got ('x', 3). Write {'words': 16}.",
        ),
        ({"pad_to": None}, "pad_to must map feature names to lengths; got None."),
        ({"pad_to": {3: 3}}, "pad_to must map feature names to lengths; got {3: 3}."),
        ({"pad_to": {"x": 0}}, "pad_to['x'] must be an integer of at least 1"),
        ({"pad_to": {"x": True}}, "pad_to['x'] must be an integer of at least 1"),
        (
            {"block_size": 8},
            "block_size must be None unless shuffle='block'; got 8. Leave it out, or set shuffle",
        ),
        ({"block_size": 0, "shuffle": "block"}, "block_size must be an integer of at least 1"),
        ({"pad_to": {"x": "3"}}, "and below 2**31; got '3'."),
        ({"keep_on_host": "text"}, "keep_on_host must be a tuple of feature names; got 'text'."),
        ({"keep_on_host": None}, "keep_on_host must be a tuple of feature names; got None."),
        ({"features": 3}, "features must be a tuple of feature names; got 3."),
        ({"features": ((),)}, "features must be a tuple of feature names; got ((),)."),
        (
            {"keep_on_host": (("a", ""),)},
            "keep_on_host must be a tuple of feature names; got (('a'",
        ),
        ({"pad_to": {("a", 3): 3}}, "pad_to must map feature names to lengths; got {('a', 3): 3}."),
        ({"features": ()}, "features must name at least one feature; got (). None means all."),
    ],
)
def test_checked_bad_field_is_named(fields: dict[str, Any], text: str | list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        BatchConfig(**{**GOOD, **fields}).checked()
    for part in [text] if isinstance(text, str) else text:
        assert part in str(caught.value)


def test_checked_reports_all_errors_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        BatchConfig(dataset="", shuffle="x", seed=-1, num_epochs=0).checked()
    names = ["dataset", "global_batch_size", "shuffle", "seed", "num_epochs"]
    assert all(f"\n  {name} must" in str(caught.value) for name in names)


def test_checked_shows_wrong_ops_beside_other_errors() -> None:
    with pytest.raises(ConfigError) as caught:
        BatchConfig(**{**GOOD, "seed": -1}, preprocess="flip_lr|cast(x)").checked()
    message = str(caught.value)
    assert "seed must be" in message
    line, caret = message.split("\n")[-3:-1]
    assert line[caret.index("^")] == "x"


def test_config_from_unknown_fields_suggest_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        config_from("mnist", {"global_batch_size": 8, "sede": 1, "shufle": "none"})
    assert "'sede': Did you mean 'seed'?" in str(caught.value)
    assert "'shufle': Did you mean 'shuffle'?" in str(caught.value)


def test_config_from_keywords_override_a_config() -> None:
    config = config_from(BatchConfig(**GOOD, seed=1), {"seed": 2})
    assert config == BatchConfig(**GOOD, seed=2).checked()


def test_config_from_two_datasets_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"given once; got 'mnist' and dataset='cifar10'"):
        config_from("mnist", {"dataset": "cifar10"})


@pytest.mark.parametrize("hold", [dict, ConfigDict, FrozenConfigDict])
def test_config_from_dicts_of_any_kind_are_the_same_config(
    hold: Callable[[dict[str, Any]], Any],
) -> None:
    fields = {
        **GOOD,
        "remainder": "pad",
        "keep_on_host": ["text"],
        "pad_to": {"objects/bbox": 4, "label": 2},
    }
    expected = BatchConfig(**fields).checked()
    assert type(expected.pad_to) is dict
    assert config_from(hold(fields), {}) == expected
    assert BatchConfig(**hold(fields)).checked() == expected
    assert config_from(hold({**fields, "seed": 1}), {"seed": 0}) == expected


def test_config_from_dict_with_unknown_fields_suggests_the_nearest() -> None:
    for given in ({**GOOD, "sede": 1}, ConfigDict({**GOOD, "sede": 1})):
        with pytest.raises(ConfigError, match=r"dict of the fields .*\n  'sede': .*'seed'\?"):
            config_from(given, {})
    with pytest.raises(ConfigError, match=r"unknown:\n  '3': Known: "):
        config_from({**GOOD, 3: 1}, {})


def test_config_from_dataset_may_be_a_keyword_or_missing() -> None:
    assert config_from(None, GOOD) == config_from("mnist", {"global_batch_size": 8})
    assert config_from({"global_batch_size": 8}, {"dataset": "mnist"}) == config_from(None, GOOD)
    with pytest.raises(ConfigError, match=r"dataset must name a TFDS dataset"):
        config_from(None, {"global_batch_size": 8})


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ([(0, 8)], 8),
        ([[0, 8], [4, 8]], 8),
        (((0, 8), (4, 8), (6, 4)), ((0, 8), (6, 4))),
        ([(np.int64(0), np.int64(8)), (4, 16)], ((0, 8), (4, 16))),
    ],
)
def test_batch_sizes_by_step_are_those_that_differ(given: Any, size: Any) -> None:
    assert BatchConfig(**{**GOOD, "global_batch_size": given}).checked().global_batch_size == size


def test_config_flags_write_batch_sizes_by_step() -> None:
    values = flags.FlagValues()
    path = Path(__file__).parents[2] / "configs" / "digits.py"
    argv = ["program", "--config.batches.global_batch_size=[(0, 64), (10, 128)]"]
    config_flags.DEFINE_config_file("config", str(path), flag_values=values, sys_argv=argv)
    values(argv)
    config: Any = values["config"].value
    assert config.batches.checked().global_batch_size == ((0, 64), (10, 128))


def test_config_flags_override_every_kind_of_field() -> None:
    values = flags.FlagValues()
    path = Path(__file__).parents[2] / "configs" / "digits.py"
    argv = [
        "program",
        "--config.batches.global_batch_size=32",
        "--config.batches.num_epochs=3",
        "--config.batches.shuffle=none",
        "--config.batches.dataset=mnist",
        "--config.batches.data_dir=/data",
        "--config.batches.with_ids=false",
        "--config.batches.features=('image', 'label')",
        "--config.batches.keep_on_host=('image',)",
        "--config.batches.pad_to={'label': 16}",
        "--config.batches.prefetch_bytes=1000",
        "--config.batches.stall_seconds=2.5",
        "--config.mesh=data=2,model=2",
    ]
    config_flags.DEFINE_config_file("config", str(path), flag_values=values, sys_argv=argv)
    values(argv)
    config: Any = values["config"].value
    assert config.mesh == "data=2,model=2"
    assert (
        config.batches.checked()
        == BatchConfig(
            dataset="mnist",
            data_dir="/data",
            prepare=True,
            global_batch_size=32,
            num_epochs=3,
            shuffle="none",
            features=("image", "label"),
            keep_on_host=("image",),
            pad_to={"label": 16},
            prefetch_bytes=1000,
            stall_seconds=2.5,
        ).checked()
    )

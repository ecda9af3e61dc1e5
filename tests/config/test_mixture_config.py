# SPDX-License-Identifier: Apache-2.0
"""All errors of a mixture at once, each with rule, value and fix; and configs from flags."""

import dataclasses
import math
from typing import Any

import pytest
from absl import flags
from ml_collections import ConfigDict, config_flags

from tfjax_batches.config.batch_config import config_from, sources_of
from tfjax_batches.config.mixture_config import MixtureConfig, Source
from tfjax_batches.errors import ConfigError
from tfjax_batches.planning.policies import Exhausted, Shuffle

GOOD: dict[str, Any] = {
    "sources": {"b": Source(dataset="mnist"), "a": Source(dataset="digits", shuffle="none")},
    "weights": {"b": 2, "a": 0.5},
    "global_batch_size": 8,
}


def test_checked_sorts_sources_and_gives_stages() -> None:
    config = MixtureConfig(**GOOD, exhausted="redistribute")
    checked = config.checked()
    assert list(checked.sources) == ["a", "b"]
    assert checked.sources["a"].shuffle is Shuffle.NONE
    assert checked.exhausted is Exhausted.REDISTRIBUTE
    assert checked.weights == ((0, {"a": 0.5, "b": 2.0}),)
    assert checked.checked() == checked
    assert config.weights == {"b": 2, "a": 0.5}


def test_checked_takes_stages_and_dicts() -> None:
    stages = [[0, {"a": 1}], [40_000, ConfigDict({"a": 1, "b": 3})]]
    config = MixtureConfig(**{**GOOD, "weights": stages})
    assert config.checked().weights == ((0, {"a": 1.0}), (40_000, {"a": 1.0, "b": 3.0}))
    dicts = {name: vars(source) for name, source in GOOD["sources"].items()}
    assert MixtureConfig(**{**GOOD, "sources": dicts}).checked() == MixtureConfig(**GOOD).checked()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"weights": {"a": 1, "b": 0}}, "numbers above 0 and below 2**63; got 'b': 0. Write"),
        ({"weights": {"a": 1, "b": -1.5}}, "got 'b': -1.5."),
        ({"weights": {"a": 1, "b": math.nan}}, "got 'b': nan."),
        ({"weights": {"a": 1, "b": math.inf}}, "got 'b': inf."),
        ({"weights": {"a": 1, "b": True}}, "got 'b': True."),
        ({"weights": {"a": 1, "b": "2"}}, "got 'b': '2'."),
        ({"weights": {}}, "weights must have a source; got none."),
        ({"weights": []}, "weights must map names of sources to numbers; got []. Write {'a': 0.7"),
        ({"weights": 3}, "weights must map names of sources to numbers; got 3."),
        ({"weights": [(0, {"a": 1, "b": 1}, 3)]}, "weights must map names"),
        ({"weights": {"a": 1, "bb": 1}}, "'bb' is not one. Did you mean 'b'?"),
        ({"weights": {"a": 1}}, "weights must name each source; they do not name 'b'. Give"),
        ({"weights": [(0, {"a": 1}), (5, {})]}, "weights from step 5 on must have a source"),
        ({"weights": [(1, {"a": 1}), (5, {"b": 1})]}, "begin at step 0, and each stage at a later"),
        ({"weights": [(0, {"a": 1}), (0, {"b": 1})]}, "got steps [0, 0]. Sort the stages"),
        ({"weights": [(0, {"a": 1}), (9, {"b": 1}), (3, {"a": 1})]}, "got steps [0, 9, 3]."),
        ({"weights": [(0, {"a": 1}), (1.5, {"b": 1})]}, "got steps [0, 1.5]."),
        ({"weights": [(0, {"a": 1}), (2**31, {"b": 1})]}, "later whole step below 2**31; got"),
        ({"sources": {}}, "sources must map names to sources; got {}. Write {'web': tjb.Source"),
        (
            {"sources": {1: Source(), "b": Source()}, "weights": {1: 1, "b": 1}},
            "sources must map names to sources; got {1: Source(",
        ),
        ({"sources": [Source()]}, "sources must map names to sources; got [Source("),
        ({"sources": {"a": "mnist", "b": Source(dataset="x")}}, "['a'] must be a Source; got 'mn"),
        (
            {"sources": {"a": {"datset": "x"}, "b": Source(dataset="x")}},
            "sources['a'] takes the fields of Source; unknown 'datset': Did you mean 'dataset'?",
        ),
        (
            {"sources": {"a": Source(dataset="x", max_epochs=0), "b": Source(dataset="x")}},
            "sources['a'].max_epochs must be an integer of at least 1",
        ),
        ({"exhausted": "end"}, "exhausted must be one of ['stop', 'redistribute']; got 'end'."),
        (
            {"global_batch_size": [(0, 8), (100, 0)]},
            "global_batch_size from step 100 on must be an integer of at least 1 and below 2**31;",
        ),
        ({"with_sources": 1}, "with_sources must be True or False; got 1."),
    ],
)
def test_checked_bad_field_is_named(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MixtureConfig(**{**GOOD, **fields}).checked()
    assert text in str(caught.value)


def test_checked_reports_all_errors_at_once() -> None:
    sources = {"a": Source(), "b": Source(dataset="x", split=3)}
    with pytest.raises(ConfigError) as caught:
        MixtureConfig(sources=sources, weights={"a": 0, "c": 1}, seed=-1).checked()
    message = str(caught.value)
    for part in (
        *("global_batch_size must", "seed must", "sources['a'].dataset must"),
        *("sources['b'].split must", "got 'a': 0", "'c' is not one", "do not name 'b'"),
    ):
        assert part in message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("num_epochs", "Set max_epochs of a Source"),
        ("remainder", "A mixture has no end of an epoch"),
        ("exausted", "Did you mean 'exhausted'?"),
    ],
)
def test_config_from_fields_that_mean_nothing_in_a_mixture_are_refused(
    name: str, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from(MixtureConfig(**GOOD), {name: "pad"})
    assert f"fields of MixtureConfig as keywords beside one; unknown:\n  {name!r}: " in str(
        caught.value
    )
    assert text in str(caught.value)


def test_config_from_keywords_override_a_mixture() -> None:
    config = config_from(MixtureConfig(**GOOD), {"seed": 3, "weights": {"a": 1, "b": 1}})
    assert isinstance(config, MixtureConfig)
    assert (config.seed, config.weights) == (3, ((0, {"a": 1.0, "b": 1.0}),))


def test_sources_of_one_dataset_is_a_source_with_its_fields() -> None:
    config = config_from("mnist", {"num_epochs": 3, "global_batch_size": 8, "features": ["x"]})
    (source,) = sources_of(config, None).values()
    assert source == Source(dataset="mnist", max_epochs=3, features=("x",))
    assert [*sources_of(MixtureConfig(**GOOD).checked(), None)] == ["a", "b"]


@dataclasses.dataclass(kw_only=True)
class TrainConfig:
    batches: MixtureConfig


def test_mixture_takes_flags() -> None:
    values = flags.FlagValues()
    overrides = [
        "--config.batches.weights={'a': 0.7, 'b': 0.3}",
        "--config.batches.exhausted=redistribute",
        "--config.batches.global_batch_size=[(0, 64), (10, 128)]",
    ]
    config = TrainConfig(batches=MixtureConfig(**GOOD))
    config_flags.DEFINE_config_dataclass(
        "config", config, flag_values=values, sys_argv=["p", *overrides]
    )
    values(["p", *overrides])
    found: Any = values["config"].value
    checked = found.batches.checked()
    assert checked.weights == ((0, {"a": 0.7, "b": 0.3}),)
    assert (checked.exhausted, checked.global_batch_size) == (
        "redistribute",
        ((0, 64), (10, 128)),
    )

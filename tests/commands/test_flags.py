# SPDX-License-Identifier: Apache-2.0
"""Flags of the fields of `BatchConfig`, in programs and in notebooks."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from absl import flags

import tfjax_batches as tjb

FIELDS = {
    field.name
    for kind in (tjb.BatchConfig, tjb.MixtureConfig)
    for field in dataclasses.fields(kind)
}
SOURCES = "{'a': {'dataset': 'digits'}, 'b': {'dataset': 'digits', 'split': 'test'}}"

PROGRAM = """
from absl import app
import tfjax_batches as tjb

tjb.define_batch_flags()
tjb.define_batch_flags("eval_")
tjb.define_batch_flags()

def main(argv):
    print(tjb.batch_config_from_flags().checked())
    print(tjb.batch_config_from_flags("eval_", num_epochs=1))
    print(tjb.sharding_from_flags().spec, dict(tjb.sharding_from_flags().mesh.shape))

app.run(main)
"""


def parsed(*arguments: str) -> flags.FlagValues:
    """Return flags of their own, defined and parsed."""
    values = flags.FlagValues()
    tjb.define_batch_flags(flag_values=values)
    values(["program", *arguments])
    return values


def run_program(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, os.fspath(tmp_path / "program.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_program_reads_config_and_sharding_from_its_command_line(tmp_path: Path) -> None:
    result = run_program(
        tmp_path,
        "--dataset=mnist",
        "--global_batch_size=256",
        "--noverify_crc",
        "--eval_dataset=mnist",
        "--eval_remainder=pad",
        "--mesh=data=-1,model=2",
    )
    assert result.returncode == 0, result.stderr
    train, evaluation, sharding = result.stdout.splitlines()
    expected = tjb.BatchConfig(dataset="mnist", global_batch_size=256, verify_crc=False)
    assert train == str(expected.checked())
    assert "remainder=<Remainder.PAD: 'pad'>" in evaluation
    assert "num_epochs=1" in evaluation
    assert sharding.endswith("{'data': 2, 'model': 2}")


def test_program_names_wrong_flags_in_one_line_and_all_flags_in_its_help(tmp_path: Path) -> None:
    wrong = run_program(tmp_path, "--shuffle=globl")
    assert wrong.returncode == 1
    assert "Traceback" not in wrong.stderr
    assert "Did you mean 'global'?" in wrong.stderr
    helped = run_program(tmp_path, "--help").stdout
    for name in FIELDS | {"mesh", "data_axes", "eval_split"}:
        assert f"--{name}:" in helped or f"--[no]{name}:" in helped, name


@pytest.mark.parametrize(
    ("name", "choices"), [("shuffle", tjb.Shuffle), ("remainder", tjb.Remainder)]
)
def test_flag_of_a_choice_lists_all_where_it_is_wrong(
    name: str, choices: type[tjb.Shuffle] | type[tjb.Remainder]
) -> None:
    with pytest.raises(flags.IllegalFlagValueError) as caught:
        parsed(f"--{name}=wrong")
    assert str([each.value for each in choices]) in str(caught.value)


def test_flags_are_those_of_the_fields_with_their_docs_and_defaults() -> None:
    values = parsed()
    assert set(values) - {"help", "helpfull", "helpshort", "helpxml"} >= FIELDS
    assert all(values[name].help for name in FIELDS)
    assert values["seed"].help == (
        "Seed of the order and of random transforms, 0 <= seed < 2**63. Equal on all processes."
    )
    assert tjb.batch_config_from_flags(flag_values=values) == tjb.BatchConfig()


@pytest.mark.parametrize(
    ("argument", "field", "value"),
    [
        ("--split=train[:90%]", "split", "train[:90%]"),
        ("--data_dir=/data", "data_dir", "/data"),
        ("--data_dir=none", "data_dir", None),
        ("--prepare", "prepare", True),
        ("--noverify_crc", "verify_crc", False),
        ("--num_epochs=3", "num_epochs", 3),
        ("--num_epochs=None", "num_epochs", None),
        ("--shuffle=none", "shuffle", "none"),
        ("--stall_seconds=none", "stall_seconds", None),
        ("--stall_seconds=2.5", "stall_seconds", 2.5),
        ("--features=image,objects/bbox", "features", ("image", "objects/bbox")),
        ("--keep_on_host=text", "keep_on_host", ("text",)),
        ("--keep_on_host=", "keep_on_host", ()),
        ("--pad_to=objects/bbox=16,words=8", "pad_to", {"objects/bbox": 16, "words": 8}),
        ("--seed=9223372036854775807", "seed", 2**63 - 1),
        ("--global_batch_size=8", "global_batch_size", 8),
        ("--global_batch_size=0:8,100:16", "global_batch_size", ((0, 8), (100, 16))),
        ("--global_batch_size=[(0, 8), (100, 16)]", "global_batch_size", ((0, 8), (100, 16))),
    ],
)
def test_flag_value_is_that_of_the_field_and_survives_serialization(
    argument: str, field: str, value: object
) -> None:
    values = parsed(argument)
    assert getattr(tjb.batch_config_from_flags(flag_values=values), field) == value
    if value is not None:  # absl itself writes nothing for None
        again = parsed(values[field].serialize())
        assert getattr(tjb.batch_config_from_flags(flag_values=again), field) == value


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--seed=-1", "seed must be an integer of at least 0 and below 2**63; got -1."),
        ("--seed=x", "expected an integer"),
        ("--num_epochs=0", "num_epochs must be an integer of at least 1"),
        ("--num_epochs=1.5", "expected an integer, or none"),
        ("--shuffle=globl", "Did you mean 'global'?"),
        ("--global_batch_size=8,16", "expected an integer, or sizes by step such as 0:256"),
        ("--global_batch_size=0:8,x", "got '0:8,x'"),
        ("--global_batch_size=5:8,6:16", "global_batch_size must begin at step 0"),
        ("--pad_to=bbox", "expected lengths such as"),
        ("--pad_to==3", "expected lengths such as"),
        ("--pad_to=a=1,a=2", "got 'a=1,a=2'"),
        ("--pad_to=bbox=0", "pad_to['bbox'] must be an integer of at least 1"),
        ("--features=", "features must name at least one feature"),
        ("--global_batch_sise=3", "Did you mean: global_batch_size"),
    ],
)
def test_flag_with_a_wrong_value_is_an_error_of_one_line(argument: str, message: str) -> None:
    with pytest.raises(flags.Error) as caught:
        parsed(argument)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_flags_that_were_never_parsed_have_their_defaults() -> None:
    values = flags.FlagValues()
    tjb.define_batch_flags(flag_values=values)
    config = tjb.batch_config_from_flags(flag_values=values, dataset="digits")
    assert config == tjb.BatchConfig(dataset="digits")
    assert tjb.sharding_from_flags(values) == tjb.data_sharding()


def test_flags_defined_twice_keep_their_values_and_those_of_others_are_an_error() -> None:
    values = parsed("--seed=5")
    tjb.define_batch_flags(flag_values=values)
    assert tjb.batch_config_from_flags(flag_values=values).seed == 5
    others = flags.FlagValues()
    flags.DEFINE_string("dataset", "", "of another module", others)
    with pytest.raises(flags.DuplicateFlagError):
        tjb.define_batch_flags(flag_values=others)


def test_flags_that_were_not_defined_are_an_error_that_says_how() -> None:
    with pytest.raises(tjb.ConfigError, match=r"no --eval_dataset\. Call define_batch_flags"):
        tjb.batch_config_from_flags("eval_", parsed())
    with pytest.raises(tjb.ConfigError, match=r"'sead': Did you mean 'seed'"):
        tjb.batch_config_from_flags(flag_values=parsed(), sead=3)


def test_sharding_from_flags_holds_all_devices() -> None:
    sharding = tjb.sharding_from_flags(parsed("--mesh=a=2,b=-1", "--data_axes=b,a"))
    assert dict(sharding.mesh.shape) == {"a": 2, "b": len(jax.devices()) // 2}
    assert tuple(sharding.spec) == (("b", "a"),)
    assert tuple(tjb.sharding_from_flags(parsed("--data_axes=")).spec) == ()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--mesh=data=3", "got 'data=3'"),
        ("--mesh=data", "got 'data', which is wrong at 'data'"),
        ("--data_axes=dat", r"Did you mean 'data'\?"),
        ("--data_axes=data,data", "different axes of the mesh"),
    ],
)
def test_sharding_from_flags_that_fit_no_mesh_is_an_error(argument: str, message: str) -> None:
    with pytest.raises(tjb.LayoutError, match=message):
        tjb.sharding_from_flags(parsed(argument))


def test_flags_of_a_mixture_give_its_config_and_survive_serialization() -> None:
    weights = "[(0, {'a': 1}), (100, {'a': 0.7, 'b': 0.3})]"
    values = parsed(
        f"--sources={SOURCES}", f"--weights={weights}", "--global_batch_size=8", "--with_sources"
    )
    config = tjb.batch_config_from_flags(flag_values=values)
    assert isinstance(config, tjb.MixtureConfig)
    checked = config.checked()
    assert checked.sources["b"] == tjb.Source(dataset="digits", split="test")
    assert checked.weights == ((0, {"a": 1.0}), (100, {"a": 0.7, "b": 0.3}))
    assert checked.with_sources
    again = parsed(*(values[name].serialize() for name in ("sources", "weights")))
    config = tjb.batch_config_from_flags(flag_values=again, global_batch_size=8, with_sources=True)
    assert config.checked() == checked


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((f"--sources={SOURCES}", "--dataset=mnist"), "Write it in a source: sources={'web': {'da"),
        ((f"--sources={SOURCES}", "--split=train"), "Write it in a source: sources={'web': {'sp"),
        ((f"--sources={SOURCES}", "--num_epochs=3"), "Set max_epochs of a Source"),
        (("--weights={'a': 1}",), "'weights': It is of a mixture: give sources={'web'"),
        (("--dataset=mnist", "--with_sources"), "'with_sources': It is of a mixture"),
    ],
)
def test_flags_of_the_other_kind_of_config_are_refused(
    arguments: tuple[str, ...], text: str
) -> None:
    with pytest.raises(tjb.ConfigError, match=re.escape(text)):
        tjb.batch_config_from_flags(flag_values=parsed(*arguments))


@pytest.mark.parametrize("literal", ["{'a': digits}", "{'a': ", "", "{[]: 1}"])
def test_flag_that_is_no_literal_shows_how_to_write_it(literal: str) -> None:
    with pytest.raises(flags.IllegalFlagValueError, match="a Python dict in quotes, such as"):
        parsed(f"--sources={literal}")

# SPDX-License-Identifier: Apache-2.0
"""The words that each command takes."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfjax_batches.commands.options import FieldOption, field_options
from tfjax_batches.errors import BatchesError, nearest_hint

PROGRAM = "python -m tfjax_batches"

_ABOUT = f"""\
Look at datasets and runs, ahead of them. `COMMAND --help` tells of each command.

  {PROGRAM} describe digits --global_batch_size=64 --prepare
"""
_DESCRIBE = f"""\
Print what a run would do, from the dataset's metadata alone: steps, remainder, who loads which
rows, features, bytes. No record is read, and no device is needed: the machines may be invented.

  {PROGRAM} describe mnist --global_batch_size=256
  {PROGRAM} describe mnist --global_batch_size=1024 --processes=64 --devices_per_process=4
  {PROGRAM} describe c4 --global_batch_size=512 --mesh=data=32,model=8 --spec=data,model \\
      --processes=64 --features=text --keep_on_host=text
"""
_PREVIEW = f"""\
Print the first examples of a run, as decoded and after each transform.

  {PROGRAM} preview digits --prepare
  {PROGRAM} preview mnist --rows=2 --preprocess='value_range(-1, 1)'
"""
_INDEX = f"""\
Find where the records of TFRecord files begin, ahead of the first run, and keep it.

  {PROGRAM} index imagenet2012
  {PROGRAM} index /data/tfds/mnist/3.0.1 --split=train
"""
_VERIFY = f"""\
Read every record, and compare checksums and counts with what was written. Names file, record and
offset of each that is damaged; the exit code is then 1.

  {PROGRAM} verify imagenet2012 --split=validation
  {PROGRAM} verify /data/tfds/mnist/3.0.1
"""
_OPS = f"""\
Print the ops that a preprocessing spec can name, with their arguments.

  {PROGRAM} ops
"""
_COMMANDS = {
    "describe": _DESCRIBE,
    "preview": _PREVIEW,
    "index": _INDEX,
    "verify": _VERIFY,
    "ops": _OPS,
}
_WITH_FIELDS = ("describe", "preview")


def parse_command_line(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments that are given; of a misspelt word the error names the nearest.

    Args:
        argv: The words, the command first. None: those of the command line.

    Raises:
        SystemExit: With code 2 for words that cannot be understood, 0 after `--help`.
    """
    parser = make_parser()
    words = list(sys.argv[1:] if argv is None else argv)
    if words and not words[0].startswith("-") and words[0] not in _COMMANDS:
        parser.error(f"invalid choice: {words[0]!r}. {nearest_hint(words[0], _COMMANDS)}")
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        hint = nearest_hint(unknown[0].partition("=")[0], _options(arguments))
        parser.error(f"unrecognized arguments: {' '.join(unknown)}. {hint}")
    return arguments


def shell_text(error: BatchesError, arguments: argparse.Namespace) -> str:
    """Return an error's message, with options in place of the arguments of Python."""
    text = str(error)
    if arguments.command not in _WITH_FIELDS:
        return text.replace("Pass prepare=True, or run", "Run")
    return text.replace("prepare=True", "--prepare")


def _options(arguments: argparse.Namespace) -> list[str]:
    names = set(vars(arguments)) - {"command", "dataset"}
    if arguments.command in _WITH_FIELDS:
        names |= {field.name for field in field_options()} - {"dataset"}
    return [f"--{name}" for name in names]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    added = {
        name: commands.add_parser(
            name,
            help=about.partition("\n\n")[0].partition(". ")[0].rstrip(".").replace("\n", " "),
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        for name, about in _COMMANDS.items()
    }
    for name in ("describe", "preview", "index", "verify"):
        added[name].add_argument(
            "dataset", help="TFDS name[/config][:version], or a versioned folder"
        )
    for name in _WITH_FIELDS:
        _add_fields(added[name])
    _add_machines(added["describe"])
    _add_count(added["preview"], "--rows", None, "Examples to print. Default: 4, or all of fewer.")
    for name in ("index", "verify"):
        added[name].add_argument("--split", help="One split. Default: each of them.")
        added[name].add_argument("--data_dir", help="Folder of prepared datasets.")
    return parser


def given_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `BatchConfig` that were given, the dataset among them."""
    names = {field.name for field in field_options()}
    return {name: value for name, value in vars(arguments).items() if name in names}


def _add_machines(parser: argparse.ArgumentParser) -> None:
    parser = parser.add_argument_group("machines")  # type: ignore[assignment]
    _add_count(parser, "--processes", 1, "Processes, which own equal runs of devices.")
    _add_count(parser, "--devices_per_process", None, "Default: 1, or what the mesh makes it.")
    parser.add_argument(
        "--mesh",
        default="data=-1",
        metavar="AXES",
        help="Axes and sizes in order, as in data=8,model=4; one size may be -1: the devices left.",
    )
    parser.add_argument(
        "--spec",
        default="data",
        metavar="AXES",
        help="Axes of each dim, as in host+device,-,seq; - for a dim that is not split.",
    )
    parser.add_argument(
        "--process", type=int, default=0, metavar="N", help="Tell of this process. Default: 0."
    )


def _add_fields(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fields of BatchConfig")
    for field in field_options():
        if field.name == "dataset":
            continue
        shown: Mapping[str, Any] = {"metavar": "VALUE", "type": _type_of(field)}
        if field.is_bool:
            shown = {"action": argparse.BooleanOptionalAction}
        elif field.choices:
            shown = {"choices": field.choices}
        text = field.doc.replace("%", "%%")
        group.add_argument(f"--{field.name}", default=argparse.SUPPRESS, help=text, **shown)


def _add_count(parser: Any, name: str, default: int | None, text: str) -> None:
    said = text if default is None else f"{text} Default: {default}."
    parser.add_argument(name, type=_count, default=default, metavar="N", help=said)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1; got {text!r}")
    return int(text)


def _type_of(field: FieldOption) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = field.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        if fault := field.find_error(value):
            raise argparse.ArgumentTypeError(fault)
        return value

    return read

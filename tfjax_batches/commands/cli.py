# SPDX-License-Identifier: Apache-2.0
"""The command line: the arguments of each command."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tfjax_batches.commands.options import field_options
from tfjax_batches.errors import BatchesError, nearest_hint

PROGRAM = "python -m tfjax_batches"

_ABOUT = f"""\
Look at datasets and runs before starting them. `COMMAND --help` describes each command.

  {PROGRAM} describe digits --global_batch_size=64 --prepare
"""
_DESCRIBE = f"""\
Print what a run would do, from the dataset's metadata alone: steps, remainder, the rows of each
process, features, bytes. No record is read, and the machines need not exist.

  {PROGRAM} describe mnist --global_batch_size=256
  {PROGRAM} describe mnist --global_batch_size=1024 --processes=64 --devices_per_process=4
  {PROGRAM} describe c4 --global_batch_size=512 --mesh=data=32,model=8 --spec=data,model \\
      --processes=64 --features=text --keep_on_host=text
"""
_PREVIEW = f"""\
Print the first examples of a run, decoded and after each transform.

  {PROGRAM} preview digits --prepare
  {PROGRAM} preview mnist --rows=2 --preprocess='value_range(-1, 1)'
"""
_INDEX = f"""\
Find the records of TFRecord files before the first run, and store the index.

  {PROGRAM} index imagenet2012
  {PROGRAM} index /data/tfds/mnist/3.0.1 --split=train
"""
_VERIFY = f"""\
Read every record, and compare checksums and counts with those stored. Prints file, record and
offset of each damaged record; the exit code is then 1.

  {PROGRAM} verify imagenet2012 --split=validation
  {PROGRAM} verify /data/tfds/mnist/3.0.1
"""
_OPS = f"""\
Print the ops that --preprocess can name, with their arguments.

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
    """Return the parsed arguments; the error for a misspelt word names the nearest one.

    Args:
        argv: The words, the command first. None: those of this process.

    Raises:
        SystemExit: With code 2 for wrong arguments, 0 after `--help`.
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
    """Return the message of an error, with options in place of Python arguments.

    Args:
        error: The error of a command.
        arguments: The arguments of that command.
    """
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
    _add_count(added["preview"], "--rows", None, "Examples to print. Default: 4, or all if fewer.")
    for name in ("index", "verify"):
        added[name].add_argument("--split", help="One split. Default: all splits.")
        added[name].add_argument("--data_dir", help="Folder of prepared datasets.")
    return parser


def given_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `BatchConfig` that were given, including the dataset."""
    names = {field.name for field in field_options()}
    return {name: value for name, value in vars(arguments).items() if name in names}


def _add_machines(parser: argparse.ArgumentParser) -> None:
    parser = parser.add_argument_group("machines")  # type: ignore[assignment]
    _add_count(parser, "--processes", 1, "Processes; each owns an equal run of devices.")
    _add_count(parser, "--devices_per_process", None, "Default: 1, or as many as the mesh needs.")
    parser.add_argument(
        "--mesh",
        default="data=-1",
        metavar="AXES",
        help="Axes and sizes in order, as in data=8,model=4; one size may be -1: all others.",
    )
    parser.add_argument(
        "--spec",
        default="data",
        metavar="AXES",
        help="Partition spec: axes of each dim, as in host+device,-,seq; - for one not split.",
    )
    parser.add_argument(
        "--process", type=int, default=0, metavar="N", help="Process to describe. Default: 0."
    )


def _add_fields(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fields of BatchConfig")
    for field in field_options():
        if field.name == "dataset":
            continue
        shown: dict[str, Any] = {"metavar": "VALUE", "type": _argument(field.parse)}
        if field.is_bool:
            shown = {"action": argparse.BooleanOptionalAction}
        text = field.doc.replace("%", "%%")
        group.add_argument(f"--{field.name}", default=argparse.SUPPRESS, help=text, **shown)


def _add_count(parser: Any, name: str, default: int | None, text: str) -> None:
    text = text if default is None else f"{text} Default: {default}."
    parser.add_argument(name, type=_argument(_count), default=default, metavar="N", help=text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"expected a number of at least 1; got {text!r}")
    return int(text)


def _argument(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return `parse` with the error whose message argparse prints."""

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read

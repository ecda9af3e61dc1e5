# SPDX-License-Identifier: Apache-2.0
"""The command line: the arguments of each command."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from tfjax_batches.commands.options import field_options
from tfjax_batches.errors import nearest_hint
from tfjax_batches.text.units import parse_bandwidth, parse_seconds

PROGRAM = "python -m tfjax_batches"

_ABOUT = f"""\
Look at datasets and runs before starting them. `COMMAND --help` describes each command.

  {PROGRAM} describe digits --global_batch_size=64 --prepare
"""
# Each begins with the line that the list of commands shows.
_COMMANDS = {
    "describe": f"""\
Print what a run would do: steps, remainder, the rows of each process, features, bytes.

Metadata of the dataset are enough: no record is read, and the machines need not exist.

  {PROGRAM} describe mnist --global_batch_size=256
  {PROGRAM} describe mnist --global_batch_size=1024 --processes=64 --devices_per_process=4
  {PROGRAM} describe c4 --global_batch_size=512 --mesh=data=32,model=8 --spec=data,model \\
      --processes=64 --features=text --keep_on_host=text
  {PROGRAM} describe --sources="{{'a': {{'dataset': 'mnist'}}, 'b': {{'dataset': 'kmnist'}}}}" \\
      --weights="{{'a': 0.7, 'b': 0.3}}" --global_batch_size=256
""",
    "preview": f"""\
Print the first examples of a run, decoded and after each transform.

  {PROGRAM} preview digits --prepare
  {PROGRAM} preview mnist --rows=2 --preprocess='value_range(-1, 1)'
""",
    "plan": f"""\
Print what reading would cost on storage far away: requests, memory and times, by order.

Metadata of the dataset are enough, and the machines need not exist. Times are the least possible:
the larger of what bytes take at the bandwidth of a process, and requests at their latency.

  {PROGRAM} plan c4 --global_batch_size=512 --processes=64 --latency=30ms --bandwidth=5Gbps
""",
    "index": f"""\
Find the records of TFRecord files before the first run, and store the index.

  {PROGRAM} index imagenet2012
  {PROGRAM} index /data/tfds/mnist/3.0.1 --split=train
  {PROGRAM} index c4 --part=3/64  # the fourth of 64 jobs; then once more without --part
""",
    "verify": f"""\
Read every record, and compare checksums and counts with those stored.

Prints file, record and offset of each damaged record; the exit code is then 1. --decode finds
records that are whole and have other features than the metadata says, such as images of another
size. Names record files that the metadata does not know.

  {PROGRAM} verify imagenet2012 --split=validation --decode
  {PROGRAM} verify /data/tfds/mnist/3.0.1
""",
    "ops": f"""\
Print the ops that --preprocess can name, with their arguments.

  {PROGRAM} ops
""",
}
_WITH_FIELDS = ("describe", "preview", "plan")


def parse_command_line(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed arguments; the error for a misspelt option names the nearest one."""
    parser = _make_parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        known = set(vars(arguments))
        if arguments.command in _WITH_FIELDS:
            known |= field_options().keys()
        hint = nearest_hint(unknown[0].lstrip("-").partition("=")[0], known)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}. {hint}")
    if (
        arguments.command in _WITH_FIELDS
        and arguments.dataset is None
        and "sources" not in arguments
    ):
        parser.error("a dataset or --sources is required")
    return arguments


def given_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the config that were given, and the dataset; None: of a mixture."""
    return {name: value for name, value in vars(arguments).items() if name in field_options()}


def _make_parser() -> argparse.ArgumentParser:
    style: dict[str, Any] = {
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }
    parser = argparse.ArgumentParser(prog=PROGRAM, description=_ABOUT, **style)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, about in _COMMANDS.items():
        command = commands.add_parser(name, help=about.splitlines()[0], description=about, **style)
        if name == "ops":
            continue
        text = "TFDS name[/config][:version], or a versioned folder"
        if name in _WITH_FIELDS:
            command.add_argument("dataset", nargs="?", help=f"{text}; or give --sources")
            _add_fields(command)
        else:
            command.add_argument("dataset", help=text)
            command.add_argument("--split", help="One split. Default: all splits.")
            command.add_argument("--data_dir", help="Folder of prepared datasets.")
        if name in ("describe", "plan"):
            _add_machines(command)
        if name == "plan":
            _add_storage(command)
        if name == "index":
            text = "Only this part of the files, from 0: job 3/64 of 64 jobs. Default: all."
            command.add_argument("--part", type=_parse_part, metavar="K/N", help=text)
        if name == "verify":
            command.add_argument("--decode", action="store_true", help="Decode every example too.")
        if name == "preview":
            command.add_argument("--rows", type=int, default=4, help="Most to print. Default: 4.")
    return parser


def _add_fields(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fields of BatchConfig and MixtureConfig")
    for name, field in field_options().items():
        if name == "dataset":
            continue
        form: dict[str, Any] = {"metavar": "VALUE", "type": field.parse}
        if isinstance(field.default, bool):
            form = {"action": argparse.BooleanOptionalAction}
        text = field.doc.replace("%", "%%")
        group.add_argument(f"--{name}", default=argparse.SUPPRESS, help=text, **form)


def _add_machines(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("machines")
    group.add_argument(
        "--processes",
        type=int,
        default=1,
        help="Processes; each owns an equal run of devices. Default: 1.",
    )
    group.add_argument(
        "--devices_per_process", type=int, help="Default: 1, or as many as the mesh needs."
    )
    group.add_argument(
        "--mesh",
        default="data=-1",
        metavar="AXES",
        help="Axes and sizes in order, as in data=8,model=4; one size may be -1: all others.",
    )
    group.add_argument(
        "--spec",
        default="data",
        metavar="AXES",
        help="Partition spec: axes of each dim, as in host+device,-,seq; - for one not split.",
    )
    group.add_argument("--process", type=int, default=0, help="Process to describe. Default: 0.")


def _add_storage(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("storage")
    group.add_argument(
        "--latency",
        type=_unit(parse_seconds),
        default=0.03,
        metavar="TIME",
        help="Of a request. Default: 30ms.",
    )
    group.add_argument(
        "--bandwidth",
        type=_unit(parse_bandwidth),
        default=625e6,
        metavar="RATE",
        help="Of a process, as in 5Gbps or 200MB/s. Default: 5Gbps.",
    )


def _parse_part(text: str) -> Any:
    # Imported here, so that help loads no TensorFlow.
    from tfjax_batches.reading.tfrecord.partial_scan import Part

    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise argparse.ArgumentTypeError(f"expected K/N, 0 <= K < N, such as 3/64; got {text!r}")
    return Part(int(number), int(count))


def _unit(parse: Callable[[str], float]) -> Callable[[str], float]:
    """Return a function whose errors argparse prints."""

    def parse_argument(text: str) -> float:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_argument

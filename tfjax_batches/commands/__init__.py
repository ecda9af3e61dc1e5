# SPDX-License-Identifier: Apache-2.0
"""Commands for a shell: `python -m tfjax_batches describe|preview|index|verify|ops`.

Each is a module of its name with `run(arguments) -> exit code`, imported when it is asked for, so
that help and mistyped words need no TensorFlow.
"""

import importlib
import os
import sys
from collections.abc import Sequence

from tfjax_batches.commands.cli import PROGRAM, parse_command_line, shell_text
from tfjax_batches.errors import BatchesError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: Its words, the command first. None: those of the command line.

    Returns:
        Exit code: 0, or 1 where `verify` finds damage, or 2 where a command cannot be done; then
        the reason stands on stderr.

    Raises:
        SystemExit: With code 2 for words that cannot be understood, 0 after `--help`.
    """
    arguments = parse_command_line(argv)
    # TensorFlow's notices at its start would stand in the way of what is printed here.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    command = importlib.import_module(f"{__name__}.{arguments.command}")
    try:
        code: int = command.run(arguments)
    except BatchesError as error:
        print(
            f"{PROGRAM} {arguments.command}: error: {shell_text(error, arguments)}", file=sys.stderr
        )
        return 2
    except KeyboardInterrupt:
        return 130
    return code

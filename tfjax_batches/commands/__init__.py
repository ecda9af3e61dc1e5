# SPDX-License-Identifier: Apache-2.0
"""Commands for a shell: `python -m tfjax_batches describe|preview|plan|index|verify|ops`.

Each is a module of its name with `run(arguments) -> exit code`. It is imported when it runs, so
that help and misspelt words load no TensorFlow.
"""

import importlib
import os
import sys
from collections.abc import Sequence

from tfjax_batches.commands.cli import PROGRAM, parse_command_line
from tfjax_batches.errors import BatchesError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of `argv`, or of this process.

    Returns:
        Exit code: 0; 1 if `verify` finds damage; 2 after an error, which is printed to stderr; 130
        after Ctrl-C.
    """
    arguments = parse_command_line(argv)
    # Hides the notices that TensorFlow prints when it is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    command = importlib.import_module(f"{__name__}.{arguments.command}")
    try:
        code: int = command.run(arguments)
    except BatchesError as error:
        print(f"{PROGRAM} {arguments.command}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code

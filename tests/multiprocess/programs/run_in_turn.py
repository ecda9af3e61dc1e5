# SPDX-License-Identifier: Apache-2.0
"""Runs several programs of this folder one after the other, since JAX starts slowly.

Argument: JSON of program → arguments. Prints `=== name` before the output of each program.
"""

import importlib
import json
import sys

from tfjax_batches import launch


def main() -> None:
    launch.initialize()
    for name, arguments in json.loads(sys.argv[1]).items():
        print(f"=== {name}", flush=True)
        importlib.import_module(f"tests.multiprocess.programs.{name}").main(*arguments)


if __name__ == "__main__":
    main()

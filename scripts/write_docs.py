# SPDX-License-Identifier: Apache-2.0
"""Writes the API reference from the docstrings of the public names, with pdoc.

    python scripts/write_docs.py FOLDER

Exits with 1 if a public name is missing in the reference. Needs the `docs` extra.
"""

import re
import sys
from pathlib import Path

import pdoc

import tfjax_batches as tjb

# Without the rooms, except those that users import.
MODULES = (
    "tfjax_batches",
    r"!tfjax_batches\.",
    "tfjax_batches.launch",
    "tfjax_batches.testing",
)


def write_reference(folder: Path) -> None:
    """Write HTML files about `MODULES`."""
    for name in tjb.__all__:
        getattr(tjb, name)  # pdoc shows names that are resolved; the package resolves on first use
    pdoc.render.configure(
        docformat="google", footer_text=f"tfjax_batches {tjb.__version__}", show_source=False
    )
    pdoc.pdoc(*MODULES, output_directory=folder)


def find_missing(folder: Path) -> list[str]:
    """Return the names of `tjb.__all__` that the reference lacks, sorted."""
    html = (folder / "tfjax_batches.html").read_text()
    return sorted(set(tjb.__all__) - set(re.findall(r'<section id="(\w+)"', html)))


def main(folder: str) -> None:
    """Write the reference, and check that it is complete."""
    write_reference(Path(folder))
    if missing := find_missing(Path(folder)):
        sys.exit(f"The reference in {folder} lacks the public names {', '.join(missing)}.")
    print(f"Wrote the reference of {len(tjb.__all__)} public names: {folder}/index.html")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"write_docs.py takes one folder; got {sys.argv[1:]}. Try: scripts/docs")
    main(sys.argv[1])

# SPDX-License-Identifier: Apache-2.0
"""Files that name one version agree on it."""

import re
from pathlib import Path

import tfjax_batches as tjb

ROOT = Path(__file__).parents[1]


def find(pattern: str, file: str) -> str:
    """Return the first group of the first match in a file of the repository."""
    match = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)
    assert match, f"{file} has no match of {pattern}"
    return match[1]


def test_changelog_starts_with_the_version_of_the_package() -> None:
    assert find(r"^## (\d+\.\d+\.\d+)", "CHANGELOG.md") == tjb.__version__


def test_pre_commit_runs_the_locked_ruff() -> None:
    locked = find(r"^ruff==(\S+)", "constraints.txt")
    assert find(r"ruff-pre-commit\n +rev: v(\S+)", ".pre-commit-config.yaml") == locked

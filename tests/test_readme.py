# SPDX-License-Identifier: Apache-2.0
"""Every code block of the README runs, and the files that README and CONTRIBUTING name exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow_datasets as tfds

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / ".github" / "CONTRIBUTING.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_python_blocks_run_one_after_the_other(
    digits_data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", digits_data_dir)
    monkeypatch.setenv("TFDS_DATA_DIR", digits_data_dir)
    names: dict[str, Any] = {}
    assert len(blocks("python")) >= 3
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_named_files_exist(text: str) -> None:
    prose = re.sub(r"```diff\n.*?```", "", text, flags=re.DOTALL)  # these add files
    named = set(re.findall(r"(?:scripts|configs|tests|tfjax_batches|\.github)/[\w/.]+", prose))
    # The tables leave out the folder that holds tests or rooms.
    in_tests = re.findall(r"`(\w+/test_\w+\.py)`", prose)
    in_rooms = re.findall(
        r"`((?!scripts|configs|tests|tfjax_)[a-z]\w*/(?!test_)[\w/]+\.py)`", prose
    )
    named |= {f"tests/{path}" for path in in_tests}
    named |= {f"tfjax_batches/{path}" for path in in_rooms}
    assert "scripts/test" in named
    assert not [path for path in named if not (ROOT / path.rstrip(".")).exists()]


def test_readme_names_the_test_of_every_law() -> None:
    laws = re.findall(r"^\| (\d)\. .*`(\w+/test_\w+\.py)` \|$", README, re.MULTILINE)
    assert [number for number, _ in laws] == list("1234567")


def test_readme_length_is_bounded() -> None:
    assert len(README.splitlines()) <= 200

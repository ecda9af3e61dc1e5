# SPDX-License-Identifier: Apache-2.0
"""Every block of the README runs, and what it names is there."""

import re
from pathlib import Path

import pytest
import tensorflow_datasets as tfds

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_python_blocks_run_one_after_the_other(
    digits_data_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", digits_data_dir)
    monkeypatch.setenv("TFDS_DATA_DIR", digits_data_dir)
    names: dict = {}
    assert len(blocks("python")) >= 3
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)


def test_paths_and_programs_exist() -> None:
    named = set(re.findall(r"(?:\./)?((?:scripts|configs|tests)/[\w/.]+)", README))
    assert {"scripts/demo", "scripts/test", "scripts/train.py"} <= named
    for path in named:
        assert (ROOT / path.rstrip(".")).exists(), path


def test_length_is_bounded() -> None:
    assert len(README.splitlines()) <= 200

# SPDX-License-Identifier: Apache-2.0
"""The notebook runs twice in one kernel, and is stored without outputs."""

import copy
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "scripts" / "explore.ipynb"


def code_cells() -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_notebook_is_stored_without_outputs() -> None:
    nbformat.validate(nbformat.read(NOTEBOOK, as_version=4))
    assert len(code_cells()) > 10
    for cell in code_cells():
        assert cell.outputs == []
        assert cell.execution_count is None
        assert not cell.metadata


def test_notebook_has_a_first_batch_within_three_lines() -> None:
    first = next(cell.source for cell in code_cells() if "tjb.build" in cell.source)
    assert len(first.splitlines()) == 3


def test_notebook_runs_twice(
    digits_data_dir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "TFDS_DATA_DIR": digits_data_dir,
        "PYTHONPATH": os.fspath(ROOT),
        "IPYTHONDIR": os.fspath(tmp_path / "ipython"),
        "JUPYTER_RUNTIME_DIR": os.fspath(tmp_path / "jupyter"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    again = [copy.deepcopy(cell) for cell in notebook.cells]
    for cell in again:
        cell["id"] += "-again"
    notebook.cells += again
    NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    shown = [cell.get("outputs", []) for cell in notebook.cells]
    half = len(shown) // 2
    for first, second in zip(shown[:half], shown[half:], strict=True):
        kinds = [sorted(out.get("data", {})) for out in first if out.output_type != "stream"]
        assert kinds == [sorted(o.get("data", {})) for o in second if o.output_type != "stream"]
    everything = [kind for outputs in shown for out in outputs for kind in out.get("data", {})]
    assert everything.count("image/png") == 4  # two pictures in each of the two runs
    assert everything.count("text/html") >= 8
    printed = "".join(out.text for outputs in shown for out in outputs if "text" in out)
    assert "image[0:2, :]: value 1 on device 0 of process 0; value 2 on device 1" in printed

"""The page on notebooks: its cells, run in order as a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.blocks import blocks
from tests.repository.tree import ROOT

PAGE = ROOT / "docs" / "how-to" / "use-in-notebooks.md"


@pytest.mark.slow
def test_the_cells_of_the_page_on_notebooks_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    cells = [
        block.text for block in blocks(PAGE.read_text(encoding="utf-8")) if block.language == "py"
    ]
    new: Any = nbformat.v4
    notebook = new.new_notebook(cells=[new.new_code_cell(cell) for cell in cells])

    NotebookClient(notebook, timeout=50, resources={"metadata": {"path": tmp_path}}).execute()

    outputs = [output for cell in notebook.cells for output in cell.outputs]
    bars = [output.data["text/html"] for output in outputs if "<progress" in str(output)]
    assert 'value="1.0000"' in bars[0]
    assert "achieved: 1 of 1 step, 43 of 43 items, 2 failed" in bars[0]
    assert outputs[-1].data["text/html"].startswith("<iframe srcdoc=")

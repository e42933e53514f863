"""The notebook of the documentation runs from top to bottom, and shows what its text says."""

import json
import os
import subprocess
import sys

import pytest
from places import ROOT

CELLS = json.loads((ROOT / "docs" / "first-steps.ipynb").read_text())["cells"]

SHOWN = """
import json as _json
print(_json.dumps({name: frame.to_dict("list") for name, frame in
                   (("found", found.rows()), ("swept", swept.rows()), ("mine", mine.jobs()))}))
"""
"""Program text that prints what the notebook has made."""


def test_it_is_stored_without_output():
    assert all(
        not cell["outputs"] and cell["execution_count"] is None
        for cell in CELLS
        if cell["cell_type"] == "code"
    )


@pytest.mark.slow
def test_its_cells_run_and_its_text_is_true(tmp_path):
    code = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code")
    # So little is simulated that compiling would take ten times as long.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1", "MPLBACKEND": "agg"}
    (tmp_path / "notebook.py").write_text(code + SHOWN)
    command = [sys.executable, "notebook.py"]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    slowdowns = dict(zip(document["found"]["scheduler"], document["found"]["slowdown"], strict=True))
    assert slowdowns["none"] > 1.5 > slowdowns["gang 10 ms"]
    assert slowdowns["batch"] == pytest.approx(1, abs=0.02)
    swept = zip(*(document["swept"][key] for key in ("granularity_us", "scheduler", "slowdown")), strict=True)
    gang = {g_us: slowdown for g_us, name, slowdown in swept if name == "gang 10 ms"}
    assert gang.keys() == {500, 2000} and max(gang.values()) < 1.5, "coordinated jobs hardly care"
    newest = document["mine"]["slowdown"][:3]
    assert newest == sorted(newest, reverse=True), "the newest job has the processors first"

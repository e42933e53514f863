"""What else a process does with numba works as without us."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys

import pytest
from compiled_only import needs_compiler
from numba.core.dispatcher import Dispatcher
from places import ROOT

import harness.simulator

NEIGHBOUR = ROOT / "tests" / "support" / "numba_neighbour.py"


def compiled_names():
    """The names of all functions that the simulators compile."""
    modules = pkgutil.walk_packages(harness.simulator.__path__, "harness.simulator.")
    values = [value for module in modules for value in vars(importlib.import_module(module.name)).values()]
    return sorted({value.py_func.__name__ for value in values if isinstance(value, Dispatcher)})


@needs_compiler
@pytest.mark.slow
def test_functions_of_our_names_work_before_between_and_after_simulations(tmp_path):
    names = compiled_names()
    assert {"advance", "carry_out", "count", "read_limit"} <= set(names)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, NEIGHBOUR, *names[::8]],  # each is compiled
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert json.loads(result.stdout) == []

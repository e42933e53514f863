"""ReFrame runs the checks of its page, and Ramble's modifier has the grammar of its language."""

import inspect
import json
import os
import re
import subprocess
import sys
import types

import other_tools
import pytest
from places import ROOT
from runs import needs_two

PAGE = ROOT / "docs" / "how-to" / "reframe-and-ramble.md"
MODIFIER = ROOT / "docs" / "packaging" / "ramble" / "modifiers" / "lockstep" / "modifier.py"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """What ReFrame reports of each check of the page, by its name."""
    folder = tmp_path_factory.mktemp("reframe")
    for _, title, text in re.findall(r'(?ms)^```(\w+) title="(.*?)"\n(.*?)^```$', PAGE.read_text()):
        (folder / title).parent.mkdir(exist_ok=True)
        (folder / title).write_text(text)
    packages = other_tools.installed(tmp_path_factory.mktemp("packages"), "reframe-hpc")
    (folder / "bin").mkdir()
    command = folder / "bin" / "lockstep"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec {sys.executable} -m harness "$@"\n')
    command.chmod(0o755)
    words = [f"{packages}/bin/reframe", "-C", "settings.py", "-c", "checks.py", "-r", "--report-file=r.json"]
    places = f"{folder}/bin:{os.environ['PATH']}"
    environment = os.environ | {"PYTHONPATH": packages, "PATH": places, "HOME": str(folder)}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200, check=False
    )
    assert (folder / "r.json").exists(), done.stdout + done.stderr
    (run,) = json.loads((folder / "r.json").read_text())["runs"]
    return {case["name"]: case for case in run["testcases"]}


@pytest.mark.tools
@pytest.mark.slow
def test_reframe_runs_a_program_under_exec(report):
    ring = report["Ring"]
    assert (ring["result"], ring["fail_reason"]) == ("pass", None)
    assert 0 < ring["perfvalues"]["here:cores:blocked"][0] <= 100


@pytest.mark.tools
@pytest.mark.slow
@needs_two
def test_reframe_compares_measured_with_simulated_slowdowns(report):
    slowdown = report["Slowdown"]
    measured, simulated, lower, upper, unit, *_ = slowdown["perfvalues"]["here:cores:gang"]
    assert (lower, upper, unit) == (None, 0.2, "x")
    assert simulated == pytest.approx(1, abs=0.2) and measured > 0.5
    within = measured <= simulated * 1.2  # who else uses the processors decides that
    assert slowdown["result"] == ("pass" if within else "fail")
    assert within or slowdown["fail_phase"] == "performance"


class Directives:
    """The directives of Ramble's language that the modifier uses, with Ramble's parameters and checks."""

    def __init__(self):
        self.modes, self.default, self.modifications, self.figures = {}, None, [], {}

    def tags(self, *values):
        assert all(isinstance(value, str) for value in values)

    def mode(self, name, description):
        self.modes[name] = description

    def default_mode(self, name):
        assert name in self.modes
        self.default = name

    def variable_modification(self, name, modification, method="set", mode=None, modes=None, separator=" "):
        assert method in ("append", "prepend", "set") and {*(modes or [mode])} <= self.modes.keys()
        self.modifications.append((name, modification, method, separator))

    def figure_of_merit(self, name, fom_regex, group_name, log_file="{log_file}", units="", contexts=()):
        assert group_name in re.compile(fom_regex).groupindex
        self.figures[name] = fom_regex, group_name, log_file, units


@pytest.fixture
def directives(monkeypatch):
    """What the modifier has declared."""
    declared = Directives()
    names = {name: one for name, one in inspect.getmembers(declared, inspect.ismethod) if name[0] != "_"}
    kit = types.ModuleType("ramble.modkit")
    vars(kit).update(names, BasicModifier=type("BasicModifier", (), {}))
    monkeypatch.setitem(sys.modules, "ramble", types.ModuleType("ramble"))
    monkeypatch.setitem(sys.modules, "ramble.modkit", kit)
    space = {}
    exec(compile(MODIFIER.read_text(), MODIFIER, "exec"), space)
    assert space["Lockstep"].name == MODIFIER.parent.name
    return declared


def test_the_modifier_puts_exec_before_the_launcher(directives):
    ((name, text, method, separator),) = directives.modifications
    assert (name, text + separator, method) == ("mpi_command", "lockstep exec -- ", "prepend")
    assert directives.default == "exec"


def test_the_figures_of_merit_are_those_of_the_last_line(directives):
    guide = (ROOT / "docs" / "how-to" / "faster-tests.md").read_text()
    (line,) = re.findall(r"(?m)^two-phase waits: .*$", guide)
    found = {name: re.match(regex, line)[group] for name, (regex, group, _, _) in directives.figures.items()}
    assert found == {
        "lockstep ranks": "6",
        "lockstep waits": "1806",
        "lockstep blocked": "63.3",
        "lockstep given_back": "0.3",
        "lockstep used": "0.1",
    }
    assert {log for _, _, log, _ in directives.figures.values()} == {"{log_file}"}

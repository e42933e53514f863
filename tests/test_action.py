"""The GitHub Action: its steps, run as a runner runs them, with the variables that GitHub sets."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from places import ROOT

pytestmark = pytest.mark.slow

FOLDER = ROOT / ".github" / "actions" / "exec"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text())
INSTALL, RUN = ACTION["runs"]["steps"]


@dataclass
class Runner:
    """A runner's directory of temporary files, and the steps in it."""

    temp: Path

    def step(self, step, **inputs):
        """Run a step with these inputs, and the defaults of all others."""
        unknown = inputs.keys() - ACTION["inputs"].keys()
        given = {name: one.get("default") for name, one in ACTION["inputs"].items()} | inputs
        assert not unknown and (step is INSTALL or given["command"] is not None)
        variables = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: str(given[match[1]]), value)
            for name, value in step["env"].items()
        }
        files = {name: str(self.temp / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        script = self.temp / "step.sh"
        script.write_text(step["run"])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=self.temp,
            env={**os.environ, **variables, **files, **self.places},
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )

    @property
    def places(self):
        return {"RUNNER_TEMP": str(self.temp), "GITHUB_ACTION_PATH": str(FOLDER), "GITHUB_ACTIONS": "true"}

    @property
    def outputs(self):
        lines = (self.temp / "github_output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    @property
    def summary(self):
        return (self.temp / "github_step_summary").read_text()


@pytest.fixture
def runner(tmp_path):
    """A runner on which the first step has been: its command is that of the checkout."""
    command = tmp_path / "lockstep" / "bin" / "lockstep"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m harness "$@"\n')
    command.chmod(0o755)
    return Runner(tmp_path)


def test_status_and_output_of_the_command_are_those_of_the_step(runner):
    (runner.temp / "sub").mkdir()
    command = "pwd\necho wrong >&2\n(exit 3) | cat\necho 'never here'"
    done = runner.step(RUN, command=command, directory="sub")
    assert (done.returncode, done.stdout) == (3, f"{runner.temp}/sub\n"), done.stderr
    assert "wrong\n" in done.stderr
    assert runner.outputs["status"] == "3" and "status 3" in runner.summary
    (case,) = ElementTree.parse(runner.outputs["junit"]).getroot()
    assert [one.tag for one in case] == ["error"]


def test_a_command_that_succeeds_is_told_with_its_effect(runner):
    done = runner.step(RUN, command="mpiexec -n 2 true", options="--waiting immediate\n--skip-call Scan")
    assert done.returncode == 0, done.stderr
    assert runner.outputs["status"] == "0" and runner.outputs["stuck-report"] == ""
    assert re.search(r"^two-phase waits: ", runner.summary, flags=re.MULTILINE)


def test_options_may_have_lines_of_their_own(runner):
    done = runner.step(RUN, command="true", options="--waiting immediate\n--no-such-option")
    assert (done.returncode, "--no-such-option" in done.stderr) == (2, True)


def test_a_command_is_ended_and_its_report_is_an_output(runner):
    done = runner.step(RUN, command="sleep 60", timeout="1")
    assert done.returncode == 124, done.stderr
    assert runner.outputs["status"] == "124"
    assert Path(runner.outputs["stuck-report"]).exists()


def test_what_is_given_is_never_read_as_a_script_of_the_step():
    for step in (INSTALL, RUN):
        assert "${{" not in step["run"]


@pytest.mark.wheel
def test_the_wheel_is_built_from_the_repository_and_runs_a_command(tmp_path):
    runner = Runner(tmp_path)
    installed = runner.step(INSTALL, python=sys.executable)
    assert installed.returncode == 0, installed.stderr
    done = runner.step(RUN, command="echo here")
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr

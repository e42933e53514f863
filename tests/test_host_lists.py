"""Hosts as they are written in experiment files, on the command line and in host files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.workload import Node
from harness.cli import main
from harness.spec import experiment, hosts
from workloads.validation import InputError

FILE = """
hosts = ["a:2", "b"]
[[jobs]]
program = { processes = 3, phases = 1 }
[[schedulers]]
policy = "gang"
"""


def test_hosts_say_how_many_processors_there_are(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(FILE)
    found = experiment.load(str(file), here=True)
    assert found.nodes == (Node("a", 2), Node("b", 1)) and found.processors == 3
    with pytest.raises(InputError, match="processors is 1"):
        experiment.load(str(file), settings=['hosts=["c"]'])


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ("a,b", "must be a list"),
        ([1], "must be a list"),
        (["a:0"], "at least 1"),
        (["a:x"], "at least 1"),
        (["-oProxyCommand=x"], "name of a host"),
        (["a b"], "name of a host"),
        ([":2"], "name of a host"),
        (["a", "b", "a:2"], "second time"),
    ],
)
def test_what_names_no_hosts_is_refused(entries: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        hosts.parse(entries)


def test_a_host_file_is_read_as_launchers_read_it(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# ours\nnode1:2\n\n node2  # small\n")
    assert hosts.read(file) == ["node1:2", "node2"]
    file.write_text("# nobody\n")
    with pytest.raises(InputError, match="names no host"):
        hosts.read(file)
    with pytest.raises(InputError, match="cannot be read"):
        hosts.read(tmp_path / "absent")


def test_an_agent_without_a_setup_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent"]) == 2
    assert "needs the set-up that its driver made" in capsys.readouterr().err

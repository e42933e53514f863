"""What surrounds the command line: completion by a shell, and users without a home."""

import json
import subprocess
import sys

import pytest

from harness.cli import main


@pytest.mark.slow
def test_bash_completes_commands_options_and_files(lockstep, tmp_path):
    status, script, _ = lockstep("completion", "bash")
    assert status == 0
    (tmp_path / "script").write_text(script)
    (tmp_path / "mine.toml").touch()

    def completed(*words):
        line = f". ./script; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_lockstep; "
        command = ["bash", "-c", line + 'echo "${COMPREPLY[@]}"']
        return subprocess.check_output(command, cwd=tmp_path, text=True).split()

    assert completed("lockstep", "sim") == ["simulate"]
    assert completed("lockstep", "run", "--ti") == ["--timeline"]
    assert completed("lockstep", "run", "mi") == ["mine.toml"]
    assert completed("lockstep", "exec", "--waiting", "loc") == ["local-adaptive"]


def test_there_are_scripts_for_other_shells(lockstep):
    assert lockstep("completion", "zsh")[1].startswith("#compdef lockstep")
    assert json.loads(lockstep("completion", "tcsh", "--json")[1])["shell"] == "tcsh"
    assert "SHELL = 'fish': must be one of bash, zsh, tcsh" in lockstep("completion", "fish")[2]


def test_without_its_package_the_remedy_is_told(lockstep, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    status, out, err = lockstep("completion", "bash")
    assert (status, out) == (2, "") and "pip install 'lockstep-scheduling[shell]'" in err


def test_a_user_without_a_home_directory_is_no_error(monkeypatch, capsys):
    """As setpriv --reuid of a number that is in no table of users, without HOME."""
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number):
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert main(["policies"]) == 0
    output = capsys.readouterr()
    assert "gang" in output.out
    assert output.err == ""

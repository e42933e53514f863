"""What surrounds the command line: completion by a shell, the manual page, a user's defaults."""

import json
import subprocess
import sys

import pytest

from harness.cli import main
from harness.commands import COMMANDS
from harness.measure import host_check


@pytest.fixture
def defaults(tmp_path, monkeypatch):
    """A function that writes the file of a user's defaults."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "lockstep/config.toml"
    file.parent.mkdir()
    return file.write_text


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
    assert completed("lockstep", "exec", "--blocking", "loc") == ["local-adaptive"]


def test_there_are_scripts_for_other_shells_and_a_manual_page(lockstep):
    assert lockstep("completion", "zsh")[1].startswith("#compdef lockstep")
    assert json.loads(lockstep("completion", "tcsh", "--json")[1])["shell"] == "tcsh"
    assert "invalid choice: 'fish'" in lockstep("completion", "fish")[2]
    status, page, _ = lockstep("manual")
    assert status == 0 and page.startswith('.TH LOCKSTEP "1"')
    for name in (*(f"lockstep {name}" for name in COMMANDS), r"\-\-fail\-if", r"\-\-granularity\-us"):
        assert f"\\fB{name}\\fR" in page


@pytest.mark.parametrize(
    ("command", "package"), [("completion", "shtab"), ("manual", "argparse_manpage.manpage")]
)
def test_without_the_package_the_remedy_is_told(lockstep, monkeypatch, command, package):
    monkeypatch.setitem(sys.modules, package, None)
    status, out, err = lockstep(command, *["bash"] * (command == "completion"))
    assert (status, out) == (2, "") and "pip install 'lockstep-scheduling[shell]'" in err


def test_the_command_line_wins_over_a_user_s_defaults(lockstep, defaults, tmp_path):
    defaults(f'results = "{tmp_path}/mine"\ntau = 3')
    assert f"RESULTS = '{tmp_path}/mine'" in lockstep("list")[2]
    assert "RESULTS = 'other'" in lockstep("list", "other")[2]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tau = 1\ntua = 1", "line 2: tua = 1: is not a key that is known here; did you mean 'tau'?"),
        ("seed = 1", "line 1: seed = 1: is not a key that is known here; remove it; known are results, tau"),
        ("tau = 0", "config.toml, line 1: tau = 0: must be a number of at least 1e-09"),
        ("results = 3", "line 1: results = 3: must be the path of a directory"),
        ("tau 1", "config.toml, line 1: TOML = 'tau 1': must be valid TOML"),
    ],
)
def test_a_bad_default_is_named_with_file_line_and_key(lockstep, defaults, text, complaint):
    defaults(text)
    status, out, err = lockstep("policies")
    assert (status, out) == (2, "") and complaint in err
    assert lockstep("agent", "--help")[0] == 0, "others start it"


def test_the_doctor_shows_defaults(lockstep, defaults, monkeypatch, tmp_path):
    monkeypatch.setattr(host_check, "check", lambda processors: [])

    def found():
        (finding,) = json.loads(lockstep("doctor", "--json")[1])["findings"]
        return finding["found"]

    assert found() == f"Lockstep's own; {tmp_path}/lockstep/config.toml would change them"
    defaults("tolerance = 0.2")
    assert found() == f"--tolerance 0.2 from {tmp_path}/lockstep/config.toml"


def test_a_user_without_a_home_directory_has_no_defaults(monkeypatch, capsys):
    """As setpriv --reuid of a number that is in no table of users, without HOME."""
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number):
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert main(["policies"]) == 0
    told = capsys.readouterr()
    assert "gang" in told.out
    assert told.err == "lockstep: no defaults of options: this user has no home directory; set HOME\n"

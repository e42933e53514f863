"""Settings in an experiment file: what they may be, and the runs and rows that they give."""

import json
from pathlib import Path

import pytest
from native_programs import LOCKSTEP, launcher, run
from tuned_host import Host, settings_of, tuning

from harness.spec import settings
from harness.spec.experiment import load
from harness.spec.naming import scheduler_name
from harness.spec.settings import AS_IT_IS, TWO_PHASE
from workloads import native
from workloads.native import Library


@pytest.fixture(autouse=True)
def _own_directory(monkeypatch, tmp_path):
    """The command keeps its runs in the directory in which it is started."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(lockstep, monkeypatch, tmp_path):
    return tuning(lockstep, monkeypatch, tmp_path)


OF_A_FILE = """
name = "tune"
repeats = 2
[[jobs]]
count = 3
command = ["mpiexec", "./app"]
[[schedulers]]
setting = "as it is"
[[schedulers]]
setting = "yield when idle"
"""


def test_a_file_with_the_same_settings_is_the_experiment_of_tune(command, monkeypatch, tmp_path):
    seconds = {"as_it_is": (1, 3), "two_phase": (1, 1.1), "setting": (1, 2)}
    tuned = json.loads(command(Host(**seconds), "--rounds", "2", "--only", "yield when idle", "--json")[1])
    Path("mine.toml").write_text(OF_A_FILE)
    again = Host(**seconds)
    status, out, err = command(again, "mine.toml", "--resume", "--json", name="run", behind=())
    assert status == 0, err
    assert not again.asked and json.loads(out)["rows"] == tuned["rows"]

    monkeypatch.setattr(native, "carried", lambda *ignored: Library(tmp_path / "front", ()))
    more = (
        '[[schedulers]]\nsetting = "two-phase"\n[[schedulers]]\nsetting = "ours"\nenvironment = { A = "1" }\n'
    )
    Path("mine.toml").write_text(OF_A_FILE + more)
    further = Host(**seconds)
    _, out, _ = command(further, "mine.toml", "--resume", "--json", name="run", behind=())
    assert {setting for setting, *_ in further.asked} == {TWO_PHASE, "setting"}
    assert settings_of(json.loads(out)) == [AS_IT_IS, "yield when idle", TWO_PHASE, "ours"]
    assert json.loads(out)["rows"][2]["measured"]["workload_slowdown"]["median"] == pytest.approx(
        1.1, rel=0.02
    )


@pytest.mark.parametrize(
    "name, lines",
    [
        (TWO_PHASE, ("export A=1", "lockstep exec -- COMMAND")),
        ("yield when idle", ("export A=1",)),
        ("ours", ("export A=1",)),
    ],
)
def test_a_setting_says_how_people_set_it(name, lines):
    found = settings.of_file({"setting": name, "environment": {"A": "1"}})
    assert found.lines == lines and dict(found.environment) == {"A": "1"}


def test_the_line_of_two_phase_waits_has_their_rule():
    found = settings.of_file({"setting": TWO_PHASE, "waiting": "fixed", "spin_switches": 3})
    assert found.lines == ("lockstep exec --waiting fixed --spin-switches 3 -- COMMAND",)


def test_a_line_of_a_setting_is_one_for_a_shell():
    found = settings.of_file({"setting": "ours", "environment": {"OMP_SCHEDULE": "dynamic, 4"}})
    assert found.lines == ("export OMP_SCHEDULE='dynamic, 4'",)


def test_two_phase_settings_are_named_after_their_rule(command, monkeypatch, tmp_path):
    monkeypatch.setattr(native, "carried", lambda *ignored: Library(tmp_path / "front", ()))
    rules = "".join(
        f'[[schedulers]]\nsetting = "two-phase"\n{more}' for more in ("", 'waiting = "immediate"\n')
    )
    words = 'command = ["mpiexec", "./app"]'
    Path("mine.toml").write_text(OF_A_FILE.replace(words, 'command = ["mpiexec", "./app", ""]') + rules)
    host = Host(as_it_is=(1, 3), two_phase=(1, 1.1), setting=(1, 2))
    _, out, err = command(host, "mine.toml", "--json", name="run", behind=())
    assert out, err
    tables = [row["scheduler"] for row in json.loads(out)["rows"]]
    assert [scheduler_name(table) for table in tables][2:] == [TWO_PHASE, "two-phase immediate"]


def test_a_report_has_no_row_of_a_setting_that_the_file_has_not(command, lockstep):
    Path("mine.toml").write_text(OF_A_FILE.replace('[[schedulers]]\nsetting = "as it is"\n', ""))
    host = Host(as_it_is=(1, 3), two_phase=(1, 1.1), setting=(1, 2))
    status, out, err = command(host, "mine.toml", "--json", name="run", behind=())
    assert status == 0, err
    assert settings_of(json.loads(out)) == ["yield when idle"]
    status, _, err = lockstep("report", "lockstep-results", "--format", "csv", "-o", "rows.csv")
    shown = Path("rows.csv").read_text()
    assert status == 0 and "yield when idle" in shown and AS_IT_IS not in shown, err


@pytest.mark.parametrize(
    "change, complaint",
    [
        ('schedulers.0.setting=""', "schedulers[0].setting = ''"),
        ("schedulers.0={policy='gang'}", "schedulers[0].policy = 'gang'"),
        ("schedulers.0.waiting=spin", "needs the setting 'two-phase'"),
        ("schedulers.0={setting='two-phase', waiting='oracle'}", "schedulers[0].waiting = 'oracle'"),
        ("schedulers.0.setting=theirs", "schedulers[0].environment is missing"),
        ("schedulers.0.setting='fewer threads'", "depends on the host"),
        ("schedulers.0.environment.A=1", "schedulers[0].environment.A = 1"),
        (
            "schedulers.0.environment.A='1'",
            "schedulers[0].environment = { A = '1' }: must be empty for 'as it is'",
        ),
        ("jobs.0={program={dedicated_s=1}}", "jobs[0].command is missing: with settings"),
        ("jobs.0={count=2}", "jobs[0].command is missing"),
        ("jobs.0.command=['']", "jobs[0].command = ['']"),
        ("hosts=['a:1']", "hosts = ['a:1']"),
        (
            "processors=1",
            "processors = 1: cannot be set for programs with settings, which run as their users",
        ),
        ("sweep.processors=[1,2]", "processors = [1, 2]: cannot be set for programs with settings"),
        ("machine.poll_us=1", "machine = { poll_us = 1 }: cannot be set for programs with settings"),
        ("dedicated=two-phase", "dedicated = 'two-phase': cannot be set for programs with settings"),
        ("timeout_factor=0.5", "timeout_factor = 0.5"),
        ("jobs.0.command=['nowhere']", "jobs[0].command = ['nowhere']: needs a program 'nowhere'"),
        ("waiting=immediate", "'two-phase'; add a table with setting = \"two-phase\"\n"),
        ("quantum_ms=3", "tables with settings have no such key; leave it out\n"),
    ],
)
def test_settings_in_a_file_are_checked(lockstep, change, complaint):
    Path("mine.toml").write_text(OF_A_FILE)
    status, _, err = lockstep("run", "mine.toml", "--set", change)
    assert status == 2 and complaint in err


def test_a_key_of_two_phase_waits_names_the_table_that_may_have_it(lockstep):
    Path("mine.toml").write_text(f'{OF_A_FILE}[[schedulers]]\nsetting = "two-phase"\n')
    status, _, err = lockstep("run", "mine.toml", "--set", "waiting=immediate")
    assert status == 2 and "waiting = 'immediate': cannot be set in all" in err
    change = err.rpartition("; write ")[2].strip()
    found = load("mine.toml", settings=[change])
    assert [one.options.waiting for one in found.schedulers][2:] == ["immediate"]


def test_a_library_that_cannot_be_made_is_told_of_before_the_first_run(command, monkeypatch):
    def no_compiler(*ignored):
        raise native.NativeError("there is no compiler")

    monkeypatch.setattr(native, "of_command", no_compiler)
    Path("mine.toml").write_text(f'{OF_A_FILE}[[schedulers]]\nsetting = "two-phase"\n')
    host = Host(as_it_is=(1, 3), two_phase=(1, 1.1), setting=(1, 2))
    status, _, err = command(host, "mine.toml", name="run", behind=())
    assert status == 2 and err.endswith("there is no compiler\n") and not host.asked


def test_settings_are_submitted_to_one_node(lockstep):
    Path("mine.toml").write_text(OF_A_FILE)
    words = "submit", "mine.toml", "--dry-run", "--ntasks-per-node", "2"
    status, out, err = lockstep(*words, "--nodes", "2")
    (line,) = err.splitlines()
    assert status == 2 and not out and "slurm.nodes = 2: must be 1 for programs with settings" in line
    status, out, err = lockstep(*words)
    assert status == 0 and "--ntasks-per-node=2" in out and "--allocation" not in out, err


def test_settings_are_of_real_runs_and_only_they_have_a_factor(lockstep):
    Path("mine.toml").write_text(OF_A_FILE)
    status, _, err = lockstep("simulate", "mine.toml")
    assert status == 2 and "schedulers[0].setting = 'as it is': programs with a setting" in err
    status, _, err = lockstep("run", "three-jobs", "--set", "timeout_factor=3")
    assert status == 2 and "timeout_factor = 3: needs programs with settings" in err


@pytest.mark.slow
def test_in_a_file_only_programs_of_an_mpi_wait_two_phase(compiled):
    loop = [*launcher("here"), "-n", "2", str(compiled("here", "bsp.c")), "100", ".25", "20"]
    plain = '[[jobs]]\ncommand = ["true"]\n' + "".join(
        f"[[schedulers]]\nsetting = {one!r}\n" for one in (AS_IT_IS, TWO_PHASE)
    )
    Path("plain.toml").write_text(f"repeats = 1\n{plain}")
    Path("mixed.toml").write_text(f"repeats = 1\n[[jobs]]\ncommand = {json.dumps(loop)}\n{plain}")
    done = run([*LOCKSTEP, "run", "plain.toml", "--no-wait"])
    assert done.returncode == 2 and "COMMAND = 'true': started no program" in done.stderr
    done = run([*LOCKSTEP, "run", "mixed.toml", "--no-wait", "--json"])
    assert done.returncode == 0, done.stderr
    assert settings_of(json.loads(done.stdout)) == [AS_IT_IS, TWO_PHASE]
    assert "without two-phase waits: COMMAND = 'true'" in done.stderr + done.stdout

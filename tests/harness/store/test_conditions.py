"""Which variables of commands records hold, and that runs with others are not taken for the same."""

import json
import re
from dataclasses import replace

import pytest
from runs import needs_two

from harness.store import conditions
from harness.store.conditions import Conditions, Moment, differences, of_run

EXPERIMENT = """
name = "commands"
processors = 2
repeats = 1
[[jobs]]
command = ["{launcher}", "-n", "2", "true"]
environment = { CP2K_DATA_DIR = "/data" }
[[jobs]]
command = ["{launcher}", "-n", "2", "true"]
[[schedulers]]
policy = "none"
"""
SETTINGS = {
    **{"OMP_NUM_THREADS": "4", "OMPI_MCA_btl": "self,vader", "UCX_TLS": "sm", "LD_PRELOAD": ""},
    **{"MKL_NUM_THREADS": "2", "FI_PROVIDER": "tcp", "MPICH_ASYNC_PROGRESS": "1", "PMIX_MCA_gds": "hash"},
}
REST = {"FOAM_INST_DIR": "/opt", "MY_PASS": "hunter2"}
HERE = Conditions(host="h")


def commands(monkeypatch, **variables):
    for name in conditions.os.environ:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return conditions.of_commands(HERE)


def test_variables_of_mpi_and_threads_have_values_and_others_a_digest(monkeypatch):
    conditions_now = commands(monkeypatch, **SETTINGS, **REST, PMI_RANK="1")
    assert conditions_now.environment == SETTINGS
    assert re.fullmatch("[0-9a-f]{16}", conditions_now.variables)
    recorded = json.dumps(conditions_now.recorded())
    assert "hunter2" not in recorded and "FOAM" not in recorded
    assert Conditions(**json.loads(recorded)) == conditions_now


def test_each_difference_is_named_with_both_values(monkeypatch):
    one = commands(monkeypatch, **SETTINGS, **REST)
    other = commands(monkeypatch, **{**SETTINGS, "OMP_NUM_THREADS": "2", "KMP_BLOCKTIME": "0"}, **REST)
    assert list(differences(one, other)) == [
        ("environment.KMP_BLOCKTIME", None, "0"),
        ("environment.OMP_NUM_THREADS", "4", "2"),
    ]
    changed = commands(monkeypatch, **SETTINGS, **{**REST, "FOAM_INST_DIR": "/usr"})
    assert list(differences(one, changed)) == [("variables", one.variables, changed.variables)]
    empty = commands(monkeypatch, **SETTINGS, **{**REST, "FOAM_INST_DIR": ""})
    gone = commands(monkeypatch, **SETTINGS, MY_PASS="hunter2")
    assert len({one.variables, empty.variables, gone.variables}) == 3


@pytest.mark.parametrize(
    "name", ["_", "SHLVL", "SSH_CLIENT", "TERM", "XDG_SESSION_ID", "SLURM_JOB_ID", "CI_TOKEN"]
)
def test_what_differs_by_session_and_what_older_records_lack_is_no_difference(name, monkeypatch):
    plain = commands(monkeypatch, **REST)
    other = commands(monkeypatch, **REST, **{name: "1"})
    assert not list(differences(plain, other))
    assert not list(differences(replace(plain, environment={}, variables=""), other))
    assert list(differences(plain, commands(monkeypatch, **REST, MY_SHLVL="1")))


@needs_two
@pytest.mark.slow
def test_a_series_of_commands_is_not_resumed_with_other_variables(lockstep, tmp_path, monkeypatch):
    (tmp_path / "commands.toml").write_text(EXPERIMENT)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setenv("MY_PASS", "hunter2")
    run = ("run", "commands.toml", "--no-simulate", "--resume", "--set", "repeats=1")
    status, out, err = lockstep(*run)
    assert status == 0, err
    assert "2 processes of 4 threads on 2 of the processors: set OMP_NUM_THREADS=1" in " ".join(out.split())
    assert "CP2K_DATA_DIR=/data true" in out
    assert not any(b"hunter2" in file.read_bytes() for file in (tmp_path / "lockstep-results").iterdir())
    monkeypatch.setenv("SHLVL", "17")
    assert lockstep(*run)[0] == 0
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    status, _, err = lockstep(*run)
    assert status == 2 and "environment.OMP_NUM_THREADS = '4', but now it is '2'" in " ".join(err.split())
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setenv("FOAM_INST_DIR", "/opt")
    assert lockstep(*run)[0] == 2
    assert lockstep("run", "three-jobs", "--no-simulate", "--set", "repeats=1")[0] == 0
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert lockstep("run", "three-jobs", "--no-simulate", "--resume", "--set", "repeats=1")[0] == 0


@pytest.mark.parametrize("span_s, others", [(0.9, None), (1.5, 0.2), (20.0, 0.2)])
def test_what_others_took_is_known_of_more_than_a_second(span_s, others):
    """The kernel counts hundredths of a second."""
    before = Moment(load=0.1, steal_s=3.0, busy_s=10.0, total_s=100.0, frequency_mhz=None)
    later = {"steal_s": 3.0 + 0.1 * span_s, "busy_s": 10.0 + 0.5 * span_s, "total_s": 100.0 + span_s}
    during = of_run(HERE, before, replace(before, own_s=before.own_s + 0.3 * span_s, **later))
    assert during.others == (others if others is None else pytest.approx(others))
    assert during.steal == pytest.approx(0.1)

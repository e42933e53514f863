"""``lockstep doctor`` on hosts with one fault each."""

import getpass
import json
import os
import re
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coordinator.host import processor_claims
from coordinator.host.processor_claims import ProcessorClaim
from harness import cli
from harness.measure import host_check
from harness.spec.experiment import usable_processors
from harness.store import records
from harness.store.conditions import Conditions
from harness.store.database import Store
from harness.store.records import Calibration

PROCESSORS = usable_processors()[:2]


@pytest.fixture
def found(monkeypatch):
    """A function that gives the findings by subject; each host is as quiet as it can be.

    What other processes measure meanwhile is claimed by other names.
    """
    monkeypatch.setattr(processor_claims, "RUN", "runofdoctor")
    monkeypatch.setattr(processor_claims, "SERIES", "seriesofdoctor")
    during = Conditions(cores=2, processors=PROCESSORS, wanting=0, others=0.0, steal=0.0)
    monkeypatch.setattr(host_check.conditions, "of_run", lambda *moments: during)

    def found():
        return {finding.subject: finding for finding in host_check.check(PROCESSORS, watch_s=0.0)}

    return found


def test_a_quiet_host_has_no_remedy_for_its_load(found):
    findings = found()
    assert {"processors", "load", "hypervisor", "mechanisms", "MPI", "shared memory"} <= findings.keys()
    assert not any(findings[subject].remedy for subject in ("load", "hypervisor", "other programs"))


def test_load_hypervisor_and_other_programs_are_told_with_remedies(found, monkeypatch):
    during = Conditions(cores=2, processors=PROCESSORS, wanting=3, others=0.2, steal=0.1)
    monkeypatch.setattr(host_check.conditions, "of_run", lambda *moments: during)
    findings = found()
    assert findings["load"].found.startswith("3 threads of other programs") and findings["load"].remedy
    assert "20.0%" in findings["other programs"].found and findings["other programs"].remedy
    assert "10.0%" in findings["hypervisor"].found and findings["hypervisor"].remedy


def test_another_run_on_these_processors_is_named(found):
    with closing(ProcessorClaim("abcd1234", PROCESSORS[:1], processor_claims.RUN)):
        finding = found()["Lockstep"]
    assert "run abcd1234" in finding.found and "wait for its end" in finding.remedy


def test_a_governor_that_saves_power_a_missing_launcher_and_a_quota_have_remedies(
    found, monkeypatch, tmp_path
):
    saving = replace(host_check.conditions.of_session(PROCESSORS, ""), governor="powersave")
    monkeypatch.setattr(host_check.conditions, "of_session", lambda *given: saving)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("coordinator.host.launcher_choice.candidates", lambda: iter(()))
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    monkeypatch.setattr("coordinator.host.quotas.cgroup_base", {"": tmp_path}.get)
    findings = found()
    assert "performance" in findings["frequency"].remedy
    assert "pip install" in findings["MPI"].remedy and "gcc" in findings["C compiler"].remedy
    assert "may use 0.5 processors" in findings["control group"].found


def test_the_command_says_how_much_is_wrong(capsys, monkeypatch):
    wrong = host_check.Finding("load", "average 9.0", "wait")
    monkeypatch.setattr(host_check, "check", lambda processors: [wrong, host_check.Finding("MPI", "mpich")])
    assert cli.main(["doctor"]) == 1
    assert "1 of 2 disturb measurements" in capsys.readouterr().out
    monkeypatch.setattr(host_check, "check", lambda processors: [])
    assert cli.main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []
    assert cli.main(["doctor", "--processors", "-1"]) == 2


def test_what_is_shared_names_no_user_no_host_and_no_path(found, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(host_check, "check", partial(host_check.check, watch_s=0.0))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("coordinator.host.quotas.quotas", lambda: {Path("/user.slice/alice"): 0.5})
    with Store(tmp_path / "lockstep-results") as store:
        samples = {"remote_wakeup_ns": [4e3, 6e3, 9e3], "cache_kb": [512.0]}.items()
        rest = ([0, 1], 0, "mpich", Conditions())
        store.add_calibrations(
            [Calibration("s", records.now(), name, values, *rest) for name, values in samples]
        )
    with closing(ProcessorClaim("abcd1234", PROCESSORS[:1], processor_claims.RUN)):
        assert cli.main(["doctor", "--report"]) == 0
    output = capsys.readouterr().out
    for secret in (getpass.getuser(), os.uname().nodename, str(Path.home()), "/", "alice", "abcd1234"):
        assert not re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", output), secret
    assert not re.search(r"\w@\w", output)  # a processor's name may end with "@ 2.80GHz"
    assert f"- remote_wakeup: 6.00 us on {records.now()[:10]}" in output and "cache_kb" not in output
    for words in ("lockstep-scheduling 0.", f"Linux version {os.uname().release}", "- MPIs: ", "may use 0.5"):
        assert words in output

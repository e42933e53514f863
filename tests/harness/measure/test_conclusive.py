"""Bad conditions end in the right warning, above the numbers, and in no number that stands out."""

import dataclasses
import json
import re
import webbrowser
from pathlib import Path

import pytest
from fake_runs import TOOLS, imitate, probe

from harness import application
from harness.analyse import advise
from harness.analyse.rows import JobRow, Row, Summary
from harness.analyse.statistics import estimate
from harness.measure import host_check
from harness.predict import parameter_grid
from harness.spec.experiment import usable_processors
from harness.spec.jobs import described
from harness.spec.scheduler import scheduler_of
from harness.store.conditions import Conditions, Moment
from workloads.program import Program

RUN = ("run", "three-jobs", "--no-simulate", "--set", "jobs.0.count=2", "--set", "repeats=3")
RUN += ("--set", "schedulers=[{policy='none'},{policy='gang'}]")
STOOD_OUT = re.compile(r"<strong>([0-9].*?)</strong> <span>(.*?)</span>")
QUIET = Moment(load=0.1, steal_s=0.0, busy_s=0.0, total_s=0.0, frequency_mhz=None)
RIVAL = "run abcd1234 of user 0 also uses processors 0, so the runs disturb each other: wait for its end"


class Clock:
    """Moments of a host that is quiet, but for what its hypervisor takes; each is 10 s after the last."""

    def __init__(self, steal):
        self._steal = steal
        self._count = 0

    def now(self, processors):
        self._count += 1
        return dataclasses.replace(
            QUIET, total_s=20.0 * self._count, steal_s=20.0 * self._steal * self._count
        )


@pytest.fixture
def lockstep(lockstep, monkeypatch):
    """The command on made-up runs, and on a quiet host unless the test changes that."""
    monkeypatch.setattr(Moment, "now", Clock(0.0).now)
    return lockstep


@pytest.fixture
def tools(monkeypatch):
    """A function that changes the tools of the command."""

    def change(**changes):
        made = dataclasses.replace(TOOLS, **changes)
        monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: made)

    return change


def reported(lockstep, *more):
    """What ``run`` prints, and the numbers that stand out in the report."""
    status, out, _ = lockstep(*RUN, *more)
    assert status == 0
    assert lockstep("report", "lockstep-results", "-o", "r.html")[0] == 0
    found = STOOD_OUT.findall(Path("r.html").read_text())
    return out, {what.split(":")[0] for _, what in found}


def test_the_report_opens_in_a_browser_or_says_that_there_is_none(lockstep, monkeypatch):
    out = lockstep(*RUN)[1]
    assert out.endswith("Next: lockstep report lockstep-results --open\n")
    shown = []
    monkeypatch.setattr(webbrowser, "open", lambda url: not shown.append(url))
    assert lockstep("report", "lockstep-results", "--open")[0] == 0
    assert lockstep(*RUN, "--resume", "--open")[0] == 0
    assert shown == [Path("report.html").absolute().as_uri()] * 2
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    status, _, err = lockstep("report", "lockstep-results", "--open")
    assert status == 2 and "there is no browser" in err


def is_above_the_table(warning, out):
    words = " ".join(out.split())
    return f"Warning: {warning}" in words and words.index("Warning: ") < words.index("slowdown")


def test_on_a_quiet_host_the_numbers_stand_out(lockstep):
    out, bold = reported(lockstep)
    assert "Warning" not in out
    assert bold == {"least slowdown", "greatest slowdown", "measured runs"}


@pytest.mark.parametrize(
    "steal, warnings, said",
    [
        (0, (RIVAL,), "another run of Lockstep used the same processors in 9 of 9 runs"),
        (0.1, (), "the hypervisor took more than 1% of the CPU time in 9 of 9 runs"),
    ],
)
def test_runs_that_something_disturbs_have_a_warning(lockstep, tools, monkeypatch, steal, warnings, said):
    monkeypatch.setattr(Moment, "now", Clock(steal).now)
    tools(run_workload=lambda workload, *_, **__: dataclasses.replace(imitate(workload), warnings=warnings))
    out, bold = reported(lockstep)
    assert is_above_the_table(said, out) and bold == {"measured runs"}


def test_two_repeats_have_no_interval_but_a_least_and_a_most(lockstep):
    out, bold = reported(lockstep, "--set", "repeats=2")
    assert is_above_the_table("2 of 2 rows have no interval, with two repeats each", out)
    assert bold == {"measured runs"}
    assert "2.80 to 2.80" in out and "Of two repeats, intervals are from the smallest to the largest" in out
    for kind in ("csv", "md"):
        lockstep("report", "lockstep-results", "-o", f"r.{kind}")
    csv = Path("r.csv").read_text()
    markdown = Path("r.md").read_text()
    assert csv.count(",least to most,") == 2 and markdown.count("| least to most |") == 2
    assert markdown.index("- Warning: ") < markdown.index("| program")


def test_warnings_are_one_numbered_list_everywhere_with_one_line_for_each_reason(
    lockstep, tools, monkeypatch
):
    monkeypatch.setattr(Moment, "now", Clock(0.1).now)
    tools(run_workload=lambda workload, *_, **__: dataclasses.replace(imitate(workload), warnings=(RIVAL,)))
    gangs = ",".join(f"{{policy='gang',quantum_ms={ms}}}" for ms in (0.3, 0.1, 0.2))
    more = "--set", "repeats=2", "--set", f"schedulers=[{gangs}]"
    document = json.loads(lockstep(*RUN, *more, "--json")[1])
    warnings = document["warnings"]
    begins = ["another run of Lockstep used", "the hypervisor took", "3 of 3 rows have no interval"]
    begins += ["3 rows, the worst gang 0.1 ms: one slot in a hundred began"]
    assert [one for one, begin in zip(warnings, begins, strict=True) if not one.startswith(begin)] == []
    for kind in ("text", "md", "html"):
        file = () if kind == "text" else ("-o", f"r.{kind}")
        _, out, _ = lockstep("report", "lockstep-results", "--format", kind, *file)
        text = Path(f"r.{kind}").read_text() if file else out
        shown = [f"Warning {number}: {one}." for number, one in enumerate(warnings, 1)]
        if kind == "html":
            shown = [f"<li>{one[0].upper()}{one[1:]}.</li>" for one in warnings]
            text = text.partition("<ol")[2].partition("</ol>")[0]
        places = [" ".join(text.split()).find(one) for one in shown]
        assert -1 not in places and places == sorted(places), kind


def row(name, *ratios):
    job = JobRow(0.0, described(Program(granularity_us=1000.0, dedicated_s=1.0)))
    return Row((job,), {}, scheduler_of({"policy": name}).table, None, Summary(estimate(ratios)))


@pytest.fixture
def advised(lockstep, tools, monkeypatch):
    """``lockstep advise`` whose simulations take no time, on a store with a calibration."""
    rows = [row("none", 1.5, 1.5, 1.5), row("gang", 1.1, 1.1, 1.1)]
    monkeypatch.setattr(advise, "predict", lambda *given: rows)

    def advised(os_noise_length_ns, *words):
        tools(probe=lambda *given: probe(*given) | {"os_noise_length_ns": [os_noise_length_ns]})
        assert lockstep("calibrate")[0] == 0
        return lockstep("advise", *words)

    return advised


def test_advice_goes_by_the_last_good_calibration_and_without_one_recommends_nothing(advised):
    status, out, _ = advised(1e7)
    assert status == 0
    assert is_above_the_table(
        "no good calibration in lockstep-results: values missing", " ".join(out.split())
    )
    assert "constants of Dusseau et al. 1996" in out
    assert "Not conclusive; gang" in out and "Use " not in out
    assert advised(1e4)[0] == 0
    status, out, _ = advised(1e7)
    assert "a later calibration was made under load (others took 40% of the processors)" in " ".join(
        out.split()
    )
    assert re.search(r"this host's constants of \d+ s ago", out)


@pytest.mark.slow
def test_simulate_and_explore_go_by_the_same_calibration_as_advise(lockstep, tools, monkeypatch):
    monkeypatch.setattr(parameter_grid, "FACTORS", (1,))
    monkeypatch.setattr(parameter_grid, "IMBALANCES", (0.25,))
    small = ("three-jobs", "--set", "repeats=1", "--set", "schedulers=[{policy='gang'}]")
    small += ("--set", "program.dedicated_s=0.01")
    tools(probe=lambda *given: probe(*given) | {"os_noise_length_ns": [1e7]})
    assert "values missing in [machine] are from Dusseau et al. 1996" in lockstep("calibrate")[2]
    for command in (("simulate", *small), ("explore", *small[:1])):
        status, _, err = lockstep(*command)
        assert status == 0 and "values missing in [machine] are from Dusseau et al. 1996 (others took" in err
    tools()
    assert "1996" not in lockstep("calibrate")[2]
    assert "1996" not in lockstep("simulate", *small)[2]
    tools(probe=lambda *given: probe(*given) | {"os_noise_length_ns": [1e7]})
    lockstep("calibrate")
    assert "a later calibration was made under load" in lockstep("simulate", *small)[2]


def test_advice_on_a_calm_calibration_recommends_and_says_how_old_it_is(advised):
    status, out, _ = advised(1e4)
    assert status == 0 and "Warning" not in out
    assert re.search(r"constants of \d+ s ago", out) and "Use gang" in out
    assert json.loads(advised(1e4, "--json")[1])["warnings"] == []


def test_what_disturbs_is_said_before_the_first_run_and_before_a_calibration(lockstep, tools):
    said = []

    def watched(workload, progress=None, history=None):
        said.append("run")
        return imitate(workload)

    def disturbances(processors):
        said.append(tuple(processors))
        return ["load: average 4.1; wait"]

    tools(run_workload=watched, disturbances=disturbances)
    _, _, err = lockstep(*RUN)
    assert said[0] == usable_processors()[:2] and said.count(said[0]) == 1
    assert err.index("warning: load: average 4.1; wait") < err.index("0/9 ")
    said.clear()
    assert "warning: load: average 4.1; wait" in lockstep("calibrate")[2]
    assert said[0] != "run"
    said.clear()
    lockstep(*RUN, "--resume")
    assert said == []  # nothing is to be measured


def test_disturbances_are_the_findings_of_the_doctor_that_have_a_remedy(monkeypatch):
    seen = Conditions(others=0.0, steal=0.1, wanting=4, cores=2, processors=[0, 1])
    monkeypatch.setattr(host_check.conditions, "of_run", lambda *moments: seen)
    said = list(host_check.disturbances(usable_processors()[:2], watch_s=0.0))
    assert "load: 4 threads of other programs want a processor; wait, or stop other programs" in said
    assert any("hypervisor: took 10.0%" in one for one in said)
    assert not any(one.startswith(("other programs", "processors", "MPI")) for one in said)

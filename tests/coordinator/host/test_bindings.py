"""Jobs that are bound to the same processors while others idle."""

import json
import os
import subprocess

from hypothesis import given
from hypothesis import strategies as st
from runs import eventually, needs_two, spawned

from coordinator.host.bindings import BoundJob, job, overlaps
from coordinator.host.launchers import LAUNCHERS
from harness import cli

EVERY = frozenset(range(8))
masks = st.frozensets(st.sampled_from(sorted(EVERY)), min_size=1)
jobs = st.lists(
    st.builds(
        BoundJob,
        st.text("abc", min_size=1, max_size=3),
        st.lists(masks, min_size=1, max_size=4).map(tuple),
        st.sampled_from(["", *LAUNCHERS]),
    ),
    max_size=4,
)


@given(jobs)
def test_processors_are_shared_in_vain_only_if_some_idle(bound):
    used = frozenset().union(*(one.processors for one in bound))
    for report in overlaps(bound, EVERY):
        assert report.idle == EVERY - used
        assert report.idle
        assert report.shared <= used
        assert report.remedy


def test_two_jobs_on_the_first_processors_are_named_with_the_remedy_of_their_launcher():
    first = tuple(frozenset({rank}) for rank in range(4))
    (report,) = overlaps([BoundJob("job 1", first, "openmpi"), BoundJob("job 2", first, "openmpi")], EVERY)
    assert report.sentence == "job 1 and job 2 are both bound to processors 0-3, and 4-7 are idle"
    assert "--bind-to none" in report.remedy
    assert not list(
        overlaps([BoundJob("job 1", first), BoundJob("job 2", (EVERY - frozenset(range(4)),))], EVERY)
    )


def test_processes_of_one_job_that_crowd_are_named():
    (report,) = overlaps([BoundJob("job 1", (frozenset({0}),) * 3)], EVERY)
    assert report.sentence == "processes of job 1 are bound to processors 0, and 1-7 are idle"


@needs_two
def test_running_programs_are_looked_at(capsys):
    one, other = sorted(os.sched_getaffinity(0))[:2]
    bound = ["taskset", "-c", str(one), "sh", "-c", "sleep 60; true"]
    with spawned(*bound) as first, spawned(*bound) as second:
        programs = first, second
        assert eventually(lambda: all(job("", p.pid).processors == {one} for p in programs))
        words = [word for p in programs for word in ("--pid", str(p.pid))]
        assert cli.main(["doctor", "--json", *words]) == 1
        findings = json.loads(capsys.readouterr().out)["findings"]
        assert f"both bound to processors {one}, and " in findings[-1]["found"]
        subprocess.run(["taskset", "-a", "-c", "-p", str(other), str(second.pid)], check=True)
    assert cli.main(["doctor", "--pid", str(first.pid)]) == 2


@needs_two
def test_tune_warns_of_copies_that_are_bound_to_one_processor(compiled, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    core = str(min(os.sched_getaffinity(0)))
    program = ["taskset", "-c", core, compiled("gcc", "hybrid.c", "-fopenmp", "-DALONE"), "1", "20", "20000"]
    words = ["tune", "--no-wait", "--json", "--jobs", "2", "--rounds", "1", "--only", "as it is"]
    assert cli.main([*words, "--", *program]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert any("bound to processors" in warning for warning in warnings), warnings

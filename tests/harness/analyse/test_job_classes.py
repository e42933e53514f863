"""Jobs of a log by class: which jobs are in one, and what a document and a page have of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from coordinator import policies
from coordinator.view import Submitter
from harness.analyse import job_classes
from harness.analyse.job_classes import JobClass
from harness.analyse.job_tables import Timed
from harness.cli import main
from harness.simulator.jobs.event_by_event import simulate
from harness.simulator.jobs.model import WHOLE_NS, rigid
from harness.store.records import Schedule


def timed(run_s, sizes, submitters=(), **source):
    columns = (np.array(one, dtype=np.int64) for one in (np.zeros(len(run_s)), sizes, run_s))
    submit_s, size, length_s = columns
    jobs = replace(rigid(submit_s, size, length_s * WHOLE_NS), submitters=submitters)
    outcome, _ = simulate(jobs, 64, policies.create("fcfs", {}))
    return Timed(None, Schedule(source, 64), outcome)


def names_of(labels):
    return [labels.names[number] if number >= 0 else None for number in labels.of_jobs]


def test_sizes_are_powers_of_two():
    timed_row = timed([1] * 7, [1, 2, 3, 4, 5, 33, 64])
    names = ["1", "2", "3-4", "3-4", "5-8", "33-64", "33-64"]
    assert names_of(job_classes.sizes(timed_row)) == names


def test_lengths_have_their_upper_bounds():
    run_s = [1, 600, 601, 3600, 3601, 8 * 3600, 8 * 3600 + 1]
    first, second, third, fourth = job_classes.LENGTHS
    names = [first, first, second, second, third, third, fourth]
    assert names_of(job_classes.lengths(timed(run_s, [1] * 7))) == names


def test_a_part_of_a_log_that_ran_in_a_shorter_time_has_the_classes_of_the_log():
    timed_row = timed([60, 61], [1, 1], window={"run_factor": 0.1})
    assert names_of(job_classes.lengths(timed_row)) == [*job_classes.LENGTHS[:2]]


@pytest.mark.parametrize(
    ("marked", "other"),
    [
        (Submitter(qos="0"), Submitter(qos="1")),
        (Submitter(partition="Interactive"), Submitter(partition="0")),
        (Submitter(qos="interactive-short"), Submitter()),
    ],
)
def test_interactive_jobs_are_those_of_such_a_queue(marked, other):
    timed_row = timed([1000, 1], [1, 1], (marked, other))
    assert names_of(job_classes.interactive(timed_row)) == ["interactive", "batch"]


def test_short_jobs_stand_for_interactive_ones_where_none_is_marked():
    for submitters in ((), (Submitter(qos="1"), Submitter("anna"))):
        short, long = names_of(job_classes.interactive(timed([60, 61], [1, 1], submitters)))
        assert (short, long) == ("up to 60 s (no job is marked interactive)", "over 60 s")


def test_users():
    timed_row = timed([1, 2, 3], [1, 1, 1], (Submitter("bert"), Submitter(qos="0"), Submitter("anna")))
    assert names_of(job_classes.users(timed_row)) == ["bert", None, "anna"]
    assert job_classes.users(timed([1], [1])).names == ()


def test_all_others_are_one_class():
    found = [JobClass(str(number), number, number / 10, number, 2 * number, 3) for number in (4, 3, 2, 1)]
    first, rest = job_classes.largest(found, 1)
    assert first == found[0]
    assert (rest.name, rest.jobs, rest.bounded_slowdown) == ("3 others", 6, 3)
    assert (rest.work_share, rest.response_s, rest.wait_s) == pytest.approx((0.6, 14 / 6, 28 / 6))
    assert [*job_classes.largest(found, 4)] == found


@pytest.mark.slow
def test_the_document_and_the_page_have_the_classes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        f"{n} {60 * n} -1 {30 * n} 2 -1 -1 2 -1 -1 1 {n % 3} -1 -1 {n % 2} -1 -1 -1" for n in range(1, 31)
    ]
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n" + "\n".join(lines))
    command = ["simulate", "log", "--log", "log.swf", "--policy", "easy", "-o", "out"]
    documents = []
    for more in ([], ["--resume"]):
        assert main([*command, *more, "--json"]) == 0
        documents.append(json.loads(capsys.readouterr().out)["rows"][0]["classes"])
    assert documents[0] == documents[1]
    kinds = [(one["name"], one["jobs"]) for one in documents[0]["interactive"]]
    assert kinds == [("interactive", 15), ("batch", 15)]
    assert [one["name"] for one in documents[0]["users"]] == ["0", "2", "1"]  # by their work
    page = (tmp_path / "out" / "report.html").read_text()
    for heading in ("By the length of the jobs", "Interactive jobs apart", "By user"):
        assert heading in page

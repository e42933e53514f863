"""Traces in and out."""

import gzip

import numpy as np
import pytest

from coordinator import policies
from harness.predict.trace import read
from harness.simulator.jobs import swf
from harness.simulator.jobs.model import rigid
from harness.simulator.jobs.simulate import simulate
from workloads.validation import InputError

S = 1_000_000_000
LOG = """; Version: 2.2
; MaxProcs: 16
; Note: first
; Note: second
1 100 -1 50 4 -1 -1 8 90 -1 1 -1 -1 -1 -1 -1 -1 -1
2 90 -1 0 -1 -1 -1 2 -1 -1 0 -1 -1 -1 -1 -1 -1 -1
3 110 -1 -1 4 -1 -1 4 60 -1 5 -1 -1 -1 -1 -1 -1 -1
4 120 -1 7 4 -1 -1 4 60 -1 2 -1 -1 -1 -1 -1 -1 -1

5 130 -1 7 -1 -1 -1 -1 60 -1 1 -1 -1 -1 -1 -1 -1 -1
6 140 -1 30 1 -1 -1 1 10 -1 5 -1 -1 -1 -1 -1 -1 -1
"""
SACCT = """JobID|Submit|Start|ElapsedRaw|AllocCPUS|State|Timelimit
7|2024-01-01T00:00:00|2024-01-01T00:01:00|60|4|COMPLETED|1-00:00:10
7.batch|2024-01-01T00:00:00|2024-01-01T00:01:00|60|4|COMPLETED|
8|2024-01-01T00:00:30|Unknown|0|0|PENDING|UNLIMITED
9|2024-01-01T00:00:40|2024-01-01T00:01:40|20|2|CANCELLED by 100|00:10:00
"""
ARRAYS = """JobID|JobIDRaw|Submit|Start|ElapsedRaw|AllocCPUS|State|Timelimit
12_3|14|2024-01-01T00:00:00|2024-01-01T00:01:00|60|4|COMPLETED|00:02:00
12_3.batch|14.batch|2024-01-01T00:00:00|2024-01-01T00:01:00|60|4|COMPLETED|
12_4|15|2024-01-01T00:00:00|2024-01-01T00:02:00|70|4|FAILED|00:02:00
12_[5-9%2]|12|2024-01-01T00:00:00|Unknown|0|0|PENDING|00:02:00
20+0|20|2024-01-01T00:00:10|2024-01-01T00:01:00|30|2|COMPLETED|00:01:00
20+0.0|20.0|2024-01-01T00:00:10|2024-01-01T00:01:00|30|2|COMPLETED|
20+1|21|2024-01-01T00:00:10|2024-01-01T00:01:00|31|6|COMPLETED|00:03:00
30+0|30|2024-01-01T00:00:20|2024-01-01T00:01:00|10|2|COMPLETED|00:01:00
30+1|31|2024-01-01T00:00:20|2024-01-01T00:01:00|10|2|RUNNING|00:01:00
20+0|20|2024-01-01T00:00:30|2024-01-01T00:05:00|5|2|COMPLETED|00:01:00
20+1|21|2024-01-01T00:00:30|2024-01-01T00:05:00|5|6|COMPLETED|00:03:00
"""


def written(folder, name, text):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_a_trace_is_read_in_order_of_arrival_without_what_never_ran(tmp_path, name):
    trace = read(written(tmp_path, name, LOG))
    assert trace.numbers.tolist() == [2, 1, 6]
    assert trace.jobs.submit_ns.tolist() == [0, 10 * S, 50 * S]
    assert trace.jobs.most.tolist() == [2, 4, 1], "what was requested, where what was used is unknown"
    assert trace.jobs.times_ns(trace.jobs.most).tolist() == [S, 50 * S, 30 * S]
    assert trace.jobs.estimates_ns().tolist() == [S, 90 * S, 30 * S], "no estimate is below the run time"
    assert (trace.processors, trace.header["Note"]) == (16, "first")
    assert trace.skipped == {"partial record": 1, "never ran": 1, "no size": 1}


def test_cancelled_jobs_can_be_left_out(tmp_path):
    trace = read(written(tmp_path, "log.swf", LOG), cancelled=False)
    assert trace.numbers.tolist() == [2, 1]


def test_sacct_is_read_without_steps_and_jobs_that_wait(tmp_path):
    trace = read(written(tmp_path, "jobs.txt", SACCT))
    assert trace.numbers.tolist() == [7, 9]
    assert trace.jobs.submit_ns.tolist() == [0, 40 * S]
    assert trace.jobs.estimates_ns().tolist() == [86_410 * S, 600 * S]


def test_tasks_of_an_array_are_jobs_and_components_of_a_heterogeneous_job_are_one(tmp_path):
    trace = read(written(tmp_path, "jobs.txt", ARRAYS))
    assert trace.numbers.tolist() == [14, 15, 20, 20]
    assert trace.jobs.most.tolist() == [4, 4, 8, 8]
    assert trace.jobs.times_ns(trace.jobs.most).tolist() == [60 * S, 70 * S, 31 * S, 5 * S]
    assert trace.jobs.estimates_ns().tolist() == [120 * S, 120 * S, 180 * S, 180 * S]
    assert trace.skipped == {"never ran": 2}, "waiting tasks, and a job that still runs in part"


def test_without_raw_numbers_tasks_have_that_of_their_array(tmp_path):
    text = "\n".join(line.split("|", 1)[0] + "|" + line.split("|", 2)[2] for line in ARRAYS.splitlines())
    assert read(written(tmp_path, "jobs.txt", text)).numbers.tolist() == [12, 12, 20, 20]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.swf", "1 2 3\n", "line 1: a job has 18 numbers"),
        ("a.swf", LOG.replace("1 100", "x 100"), "line 5"),
        ("a.swf", "; Version: 2.2\n", "at least one job that ran"),
        ("a.txt", "JobID|State\n", "missing are Submit, ElapsedRaw, AllocCPUS"),
        ("a.txt", SACCT.replace("|60|4|", "|many|4|"), "line 2"),
        ("a.txt", SACCT.replace("9|2024", "total|2024"), "line 5"),
        ("a.txt", SACCT + "10|2024-01-01T00:00:40\n", "line 6"),
        ("a.txt", "", "must name the columns"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, text, words):
    with pytest.raises(InputError, match=words):
        read(written(tmp_path, name, text))


def outcome():
    submit = np.array([0, 0, 1, 2]) * S
    jobs = rigid(submit, np.array([3, 2, 1, 4]), np.array([5, 3, 10, 1]) * S)
    return simulate(jobs, 4, policies.create("easy", {}))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.swf", "out.swf.gz"])
def test_what_is_written_can_be_read_again(tmp_path, name):
    first = outcome()
    swf.write(tmp_path / name, first, policy="easy")
    data = (tmp_path / name).read_bytes()
    again = read(tmp_path / name)
    np.testing.assert_array_equal(again.jobs.times_ns(again.jobs.most), first.finish_ns - first.start_ns)
    np.testing.assert_array_equal(again.jobs.submit_ns, first.jobs.submit_ns)
    assert again.processors == 4
    swf.write(tmp_path / name, first, policy="easy")
    assert (tmp_path / name).read_bytes() == data


@pytest.mark.slow
@pytest.mark.parametrize("name", ["easy", "fcfs-bb", "gang", "asp"])
def test_the_placement_never_gives_a_processor_twice_in_space_sharing(tmp_path, name):
    jobs = outcome().jobs
    swf.write_placement(tmp_path / "p", simulate(jobs, 4, policies.create(name, {})))
    lines = (tmp_path / "p").read_text().splitlines()
    assert lines[0].startswith("# placement 1:")
    held = []
    for line in lines[1:]:
        job, start, finish, text = line.split()
        place = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            place |= set(range(int(first), int(last or first) + 1))
        assert len(place) == jobs.most[int(job) - 1]
        assert place <= set(range(4))
        if name != "gang":
            assert all(place.isdisjoint(other) for end, other in held if end > float(start))
        held.append((float(finish), place))
    assert len(held) == len(jobs)

"""What ranks hand in is checked: what is no record fails its own job and nothing else."""

import base64
import json
import sys
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from places import SUPPORT
from runs import workload

from coordinator.drive import running_jobs
from coordinator.drive.driver import run_workload
from coordinator.workload import ParallelJob
from workloads.record import BEYOND, FIELDS, OURS, PLACE, Recorder, flaw
from workloads.timeline import ACTIVITIES, ROW, ROWS, Timeline
from workloads.work import Command

PLACED = {"job": 0, "rank": 0, "host": "a", "pid": 1, "processor": 0, "start_ns": 5, "finish_ns": 5}


def recorded():
    recorder = Recorder()
    recorder.start()
    recorder.barriers.add(0, 0)
    recorder.reads.add((1 << 61) - 1, 3)
    counts = dict.fromkeys(
        ("job", "rank", "pid", "processor", "processes", "phases", "served", "rechecks"), 1
    )
    return {**recorder.finish(), **counts, "estimate_ns": -1, "sizes": [(3, 2)], "responses_ns": [5]}


def test_what_a_rank_records_is_a_record_also_once_it_was_sent():
    timeline = Timeline()
    timeline.add(0, 7, 9)
    for record in (recorded(), recorded() | timeline.record(5)):
        assert flaw(record, OURS) == "" == flaw(json.loads(json.dumps(record)), OURS)
    assert flaw(PLACED, PLACE) == ""


def test_a_full_timeline_is_one_and_more_is_none():
    rows = np.zeros((4, ROWS), dtype="<i8")
    for columns, told in ((rows, ""), (np.hstack([rows, rows[:, :1]]), "not a packed timeline")):
        packed = base64.b64encode(zlib.compress(columns.tobytes())).decode()
        assert told in flaw({"timeline": packed})
    assert ROW.size == 32 and len(ACTIVITIES) == 4


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"start_ns": "abc"}, "start_ns is 'abc', not a whole number"),
        ({"start_ns": 10**30}, "start_ns is 1000000000000000000"),
        ({"finish_ns": 4}, "its start_ns, 5, is after its finish_ns, 4"),
        ({"finish_ns": BEYOND}, "finish_ns is"),
        ({"cpu_ns": float("nan")}, "cpu_ns is nan"),
        ({"cpu_ns": 1.5}, "cpu_ns is 1.5"),
        ({"cpu_ns": -1}, "cpu_ns is -1"),
        ({"rank": True}, "rank is True"),
        ({"host": "a\x1b[2J"}, "host is"),
        ({"host": ""}, "host is"),
        ({"waits": {}}, "not counts of waits"),
        ({"waits": {"barrier": {}, "read": 7}}, "not counts of waits"),
        ({"sizes": [[1]]}, "sizes is"),
        ({"responses_ns": [1, None]}, "responses_ns is"),
        ({"estimate_ns": -2}, "estimate_ns is"),
        ({"timeline": "****"}, "timeline"),
        ({"timeline": base64.b64encode(b"xyz").decode()}, "timeline"),
        ({"timeline": base64.b64encode(zlib.compress(bytes(31))).decode()}, "timeline"),
        ({"timeline": base64.b64encode(zlib.compress(b"\x09" * 32)).decode()}, "timeline"),
        ({"timeline": base64.b64encode(zlib.compress(bytes(1 << 26))).decode()}, "timeline"),
        ({"id": 7}, "nothing is known of 'id'"),
    ],
)
def test_each_flaw_is_told(change, told):
    assert told in flaw({**PLACED, **change}, PLACE)


def test_what_is_lacking_is_told():
    assert flaw({}, PLACE) == "it lacks " + ", ".join(PLACE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)) | st.text(max_size=8), JSON, max_size=6))
@example({"host": "\ud800"})
def test_whatever_comes_the_answer_is_a_short_sentence_and_what_passes_can_be_stored(record):
    told = flaw({**PLACED, **record})
    assert len(told) < 400 and told.isprintable()
    if not told:
        json.dumps(record, allow_nan=False)
        assert all(value < BEYOND for value in record.values() if isinstance(value, int))


def message(**changes):
    """The line of a record with these changes; its times are now."""
    record = {key: value for key, value in recorded().items() if key != "responses_ns"}
    record |= {"job": 0, "rank": 0, "processor": 0, "start_ns": "@", "finish_ns": "@", **changes}
    return json.dumps({"type": "record", "record": record}).replace('"@"', "@")


LIES = [
    ('{"type": "record", "record": {}}', "it lacks"),
    (message(start_ns="noon"), "start_ns is 'noon'"),
    (message(finish_ns=10**30), "finish_ns is 1000"),
    (message(cpu_ns=float("nan")), "cpu_ns is nan"),
    (message(rank=1, job=4), "its rank is 1, not 0"),
    (message(start_ns=0), "its times lie before the arrival"),
    (message(finish_ns=BEYOND - 1), "its finish lies in the future"),
    (message(processor=4095), "its processor, 4095"),
    (message(responses_ns=["#"]), "responses_ns is"),
]


@pytest.mark.slow
def test_a_rank_that_hands_in_no_record_fails_its_job_and_the_others_are_recorded(monkeypatch):
    usual = running_jobs.argv
    script = str(SUPPORT / "lying_rank.py")

    def argv(workload, means, job, count, directory):
        if job.number >= len(LIES):
            return usual(workload, means, job, count, directory)
        line = LIES[job.number][0].replace('"job": 0', f'"job": {job.number}')
        return [sys.executable, script, str(directory.socket), str(job.number), line]

    monkeypatch.setattr(running_jobs, "argv", argv)
    result = run_workload(workload(jobs=len(LIES) + 1, phases=200, processes=1))
    for job, (_, told) in zip(result.jobs, LIES, strict=False):
        assert "rank 0 reported an invalid record: " in job.failure and told in job.failure
        assert len(job.failure) < 300
    assert result.jobs[-1].failure == "" and [rank["job"] for rank in result.ranks] == [len(LIES)]
    json.dumps(result.ranks, allow_nan=False)


@pytest.mark.slow
def test_a_program_that_leaves_no_record_where_one_should_be_fails_its_job_alone():
    place = '"$LOCKSTEP_DIRECTORY"/records-"$LOCKSTEP_JOB"'
    left = ["echo '{' >", "echo '{\"cpu_ns\": 1e999}' >", "mkfifo", "echo '{}' >", "true"]
    commands = [Command(("sh", "-c", f"mkdir {place}; {how} {place}/rank-0-1.json"), 1) for how in left]
    jobs = tuple(ParallelJob(number, command) for number, command in enumerate(commands))
    result = run_workload(replace(workload(), jobs=jobs))
    told = ["rank-0-1.json is no JSON object", "cpu_ns is inf", "rank-0-1.json is no JSON object", "", ""]
    assert [bool(text) for text in told] == [bool(job.failure) for job in result.jobs]
    assert all(text in job.failure for text, job in zip(told, result.jobs, strict=True))
    assert [rank["job"] for rank in result.ranks] == [3, 4]

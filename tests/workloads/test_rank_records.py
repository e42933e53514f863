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
from rank_results import PLACED, rank_result
from runs import workload

from coordinator.drive import running_jobs
from coordinator.drive.driver import run_workload
from harness.analyse.timelines import messages, spans
from workloads.record import ALWAYS, MOST, NAMES, OURS, RankResult, Recorder
from workloads.timeline import ACTIVITIES, ROW, ROWS, SENT, Timeline
from workloads.validation import InputError
from workloads.work import Command


def recorded():
    """The result of a rank with all fields of our programs, and of a root of one that adapts."""
    recorder = Recorder()
    recorder.start()
    recorder.barriers.add(0, 0)
    recorder.reads.add((1 << 61) - 1, 3)
    return recorder.finish(1, 2, 3, estimate_ns=-1, sizes=((3, 2),), responses_ns=(5,))


def flaw(record):
    """Why this is the file form of no result, in words; empty if it is one."""
    try:
        RankResult.of_record(record)
    except ValueError as error:
        return str(error)
    return ""


def test_a_result_is_the_same_once_it_was_sent():
    timeline = Timeline()
    timeline.add(0, 7, 9)
    for result in (recorded(), recorded().traced(timeline.rows(5), timeline.lost), rank_result()):
        sent = json.loads(json.dumps(result.recorded(), allow_nan=False))
        assert RankResult.of_record(sent) == result
        assert [*sent] == [name for name in NAMES if getattr(result, name) is not None]
    assert all(getattr(recorded(), name) is not None for name in OURS)
    assert set(rank_result().recorded()) == set(ALWAYS) < set(OURS)


def test_a_full_timeline_is_one_and_more_is_none():
    rows = np.zeros((4, ROWS), dtype="<i8")
    for columns, complaint in ((rows, ""), (np.hstack([rows, rows[:, :1]]), "must be a packed timeline")):
        packed = base64.b64encode(zlib.compress(columns.tobytes())).decode()
        assert complaint in flaw({**PLACED, "timeline": packed})
    assert ROW.size == 32 and len(ACTIVITIES) == 4


@given(st.lists(st.integers(-1, 33), min_size=1, max_size=3))
def test_readers_understand_every_timeline_that_is_a_record(codes):
    rows = np.array([[code, 1, 1, -1] for code in codes])
    try:
        result = rank_result().traced(rows, lost=0)
    except InputError:
        return
    packed = base64.b64decode(result.timeline)
    readings = [*spans(result, packed), *messages(result, packed)]
    assert len(readings) >= sum(code >= SENT for code in codes)


@pytest.mark.parametrize(
    "change, told",
    [
        ({"start_ns": "abc"}, "'start_ns' is 'abc': it must be a whole number"),
        ({"start_ns": 10**30}, "'start_ns' is 1000000000000000000"),
        ({"finish_ns": 999}, "'finish_ns' is 999: it must be at least its start_ns, 1000"),
        ({"finish_ns": MOST + 1}, "'finish_ns' is 4611686018427387904: it"),
        ({"cpu_ns": float("nan")}, "'cpu_ns' is nan"),
        ({"cpu_ns": 1.5}, "'cpu_ns' is 1.5"),
        ({"cpu_ns": -1}, "'cpu_ns' is -1"),
        ({"rank": True}, "'rank' is True"),
        ({"rank": None}, "'rank' is None"),
        ({"host": "a\x1b[2J"}, "'host' is 'a\\x1b[2J': it must be the name of a host"),
        ({"host": ""}, "'host' is"),
        ({"waits": 7}, "'waits' is 7: it must be a table"),
        ({"waits": {"barrier": {}, "read": 7}}, "'waits.read' is 7"),
        ({"waits": {"lock": {}}}, "'waits.lock' is {}: it is not a key"),
        ({"waits": {"read": {"spun": -1}}}, "'waits.read.spun' is -1"),
        ({"waits": {"read": {"spun_histogram": [1, 2]}}}, "it must be a list of 64 values"),
        ({"sizes": [[1, -1]]}, "'sizes' is -1: it"),
        ({"responses_ns": [1, None]}, "'responses_ns' is None"),
        ({"estimate_ns": -2}, "'estimate_ns' is -2"),
        ({"concurrent": 1}, "'concurrent' is 1"),
        ({"timeline": "****"}, "'timeline' is '****': it must be a packed timeline"),
        ({"timeline": base64.b64encode(b"xyz").decode()}, "'timeline'"),
        ({"timeline": base64.b64encode(zlib.compress(bytes(31))).decode()}, "'timeline'"),
        ({"timeline": base64.b64encode(zlib.compress(b"\x09" * 32)).decode()}, "'timeline'"),
        ({"timeline": base64.b64encode(zlib.compress(bytes(1 << 26))).decode()}, "'timeline'"),
        ({"id": 7}, "'id' is 7: it is not a key that is known here"),
        ({"\x1b[2J": 7}, "'\\x1b[2J' is 7: it is not a key"),
    ],
)
def test_each_flaw_is_told(change, told):
    assert told in flaw({**PLACED, **change})


def test_what_is_lacking_is_told():
    assert flaw({}) == "it lacks job, rank, processes, processor, host, pid, start_ns, finish_ns"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), JSON, max_size=6))
@example({"host": "\ud800"})
@example({"waits": {"\ud800": 1}})
def test_whatever_comes_the_answer_is_a_short_sentence_and_what_passes_can_be_stored(record):
    complaint = flaw({**PLACED, **record})
    assert len(complaint) < 400 and complaint.isprintable()
    if not complaint:
        json.dumps(record, allow_nan=False)
        assert all(value <= MOST for value in record.values() if isinstance(value, int))


def message(**changes):
    """The text of a record with these changes; its times are now."""
    record = replace(recorded(), responses_ns=None).recorded()
    record |= {"job": 0, "rank": 0, "processes": 1, "processor": 0}
    record |= {"start_ns": "@", "finish_ns": "@", **changes}
    return json.dumps(record).replace('"@"', "@")


LIES = [
    ("{}", "it lacks"),
    (message(start_ns="noon"), "'start_ns' is 'noon'"),
    (message(finish_ns=10**30), "'finish_ns' is 1000"),
    (message(cpu_ns=float("nan")), "'cpu_ns' is nan"),
    (message(rank=1, job=4), "its rank is 1, not 0"),
    (message(start_ns=0), "its times lie before the arrival"),
    (message(cpu_ns=None), "it lacks cpu_ns"),
    (message(finish_ns=MOST), "its finish lies in the future"),
    (message(processor=4095), "its processor, 4095"),
    (message(responses_ns=["#"]), "'responses_ns' is"),
]


@pytest.mark.slow
def test_a_rank_that_hands_in_no_record_fails_its_job_and_the_others_are_recorded(monkeypatch):
    usual = running_jobs.argv
    script = str(SUPPORT / "lying_rank.py")

    def argv(workload, means, job, count, directory):
        if job.number >= len(LIES):
            return usual(workload, means, job, count, directory)
        record = LIES[job.number][0].replace('"job": 0', f'"job": {job.number}')
        return [sys.executable, script, str(directory.socket), str(job.number), record]

    monkeypatch.setattr(running_jobs, "argv", argv)
    result = run_workload(workload(jobs=len(LIES) + 1, phases=200, processes=1))
    for job, (_, complaint) in zip(result.jobs, LIES, strict=False):
        assert "rank 0 reported an invalid record: " in job.failure and complaint in job.failure
        assert len(job.failure) < 300
    assert result.jobs[-1].failure == "" and [rank.job for rank in result.ranks] == [len(LIES)]
    json.dumps([rank.recorded() for rank in result.ranks], allow_nan=False)


@pytest.mark.slow
def test_a_program_that_leaves_no_record_where_one_should_be_fails_its_job_alone():
    place = '"$LOCKSTEP_DIRECTORY"/records-"$LOCKSTEP_JOB"'
    left = ["echo '{' >", "echo '{\"cpu_ns\": 1e999}' >", "mkfifo", "echo '{}' >", "true"]
    commands = [Command(("sh", "-c", f"mkdir {place}; {how} {place}/rank-0-1.json"), 1) for how in left]
    result = run_workload(workload(programs=commands))
    complaints = [
        "rank-0-1.json is no JSON object",
        "'cpu_ns' is inf",
        "rank-0-1.json is no JSON object",
        "",
        "",
    ]
    assert [bool(text) for text in complaints] == [bool(job.failure) for job in result.jobs]
    assert all(text in job.failure for text, job in zip(complaints, result.jobs, strict=True))
    assert [rank.job for rank in result.ranks] == [3, 4]

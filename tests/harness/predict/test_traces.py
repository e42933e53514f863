"""Traces that other programs wrote, whole and damaged, compressed and from pipes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
import slow_trace_reader
from slow_trace_reader import RefusedError

from coordinator import policies
from harness.predict.job_level import SimulatedByJob
from harness.predict.trace import read
from harness.simulator import interruption
from harness.simulator.interruption import InterruptedSimulationError
from harness.simulator.jobs.kept_outcome import known
from harness.simulator.jobs.model import rigid
from harness.simulator.jobs.simulate import simulate
from harness.spec import experiment, owners
from workloads.validation import InputError

S = 1_000_000_000
HEADER = "; MaxProcs: 8\n"
JOBS = """1 0 0 10 4 -1 -1 4 20 -1 1 1 1 -1 1 -1 -1 -1
2 5 0 12 4 -1 -1 4 20 -1 1 1 1 -1 1 -1 -1 -1
"""
SACCT = """JobID|JobIDRaw|Submit|Start|ElapsedRaw|AllocCPUS|State|Timelimit
7|7|2024-01-01T00:00:00|2024-01-01T00:01:00|60|4|COMPLETED|1-00:00:10
7.batch|7.batch|2024-01-01T00:00:00|2024-01-01T00:01:00|60|4|COMPLETED|
8|8|2024-01-01T00:00:30|Unknown|0|0|PENDING|UNLIMITED
12_3|9|2024-01-01T00:00:40|2024-01-01T00:01:40|20|2|CANCELLED by 100|00:10:00
12_[4-6%2]|12|2024-01-01T00:00:40|Unknown|0|0|PENDING|00:10:00
20+0|20|2024-01-01T00:01:10|2024-01-01T00:02:00|30|2|TIMEOUT|00:01:00
20+1|21|2024-01-01T00:01:10|2024-01-01T00:02:00|31|6|COMPLETED|00:03:00
"""


def made(folder, text, name="log"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def submitted(at):
    return f"JobID|Submit|ElapsedRaw|AllocCPUS\n1|{at}|60|4\n"


PACKERS = {
    "log.swf": bytes,
    "LOG.SWF": bytes,
    "log.swf.gz": gzip.compress,
    "Log.Swf.GZ": gzip.compress,
    "log.swf.xz": lzma.compress,
    "log.SWF.bz2": bz2.compress,
    "log.txt": bytes,
    "log.gz": bytes,
    "log": lzma.compress,
}


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_trace_is_known_by_what_it_holds(tmp_path, name, ends, mark):
    data = mark + (HEADER + JOBS).replace("\n", ends).encode()
    trace = read(made(tmp_path, PACKERS[name](data), name))
    assert (trace.numbers.tolist(), trace.processors) == ([1, 2], 8)


def test_a_trace_comes_through_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress((HEADER + JOBS).encode()),))
    writer.start()
    assert read(pipe).numbers.tolist() == [1, 2]
    writer.join()


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


def test_a_trace_is_read_in_order_of_arrival_without_what_never_ran(tmp_path):
    trace = read(made(tmp_path, LOG))
    assert trace.numbers.tolist() == [2, 1, 6]
    assert trace.jobs.submit_ns.tolist() == [0, 10 * S, 50 * S]
    assert trace.jobs.max_processes.tolist() == [2, 4, 1], (
        "what was requested, where what was used is unknown"
    )
    assert trace.jobs.times_ns(trace.jobs.max_processes).tolist() == [S, 50 * S, 30 * S]
    assert trace.jobs.estimates_ns().tolist() == [S, 90 * S, 30 * S], "no estimate is below the run time"
    assert (trace.processors, trace.header["Note"]) == (16, "first")
    assert trace.skipped == {"partial record": 1, "never ran": 1, "no size": 1}


def test_tasks_of_an_array_are_jobs_and_components_of_a_heterogeneous_job_are_one(tmp_path):
    trace = read(made(tmp_path, ARRAYS))
    assert trace.numbers.tolist() == [14, 15, 20, 20]
    assert trace.jobs.max_processes.tolist() == [4, 4, 8, 8]
    assert trace.jobs.times_ns(trace.jobs.max_processes).tolist() == [60 * S, 70 * S, 31 * S, 5 * S]
    assert trace.jobs.estimates_ns().tolist() == [120 * S, 120 * S, 180 * S, 180 * S]
    assert trace.skipped == {"never ran": 1, "still running": 1}, "waiting tasks; a job that runs in part"


@pytest.mark.parametrize(
    "text, words",
    [
        ("; MaxProcs: \u00b2\n" + JOBS, ["line 1: MaxProcs must be a whole number", "'\u00b2'"]),
        (f"; MaxProcs: {10**10}\n" + JOBS, ["line 1: MaxProcs", "to 1000000", "'10000000000'"]),
        ("; MaxNodes: 4.5\n" + JOBS, ["line 1: MaxNodes", "'4.5'"]),
        (JOBS.replace("12", "nan"), ["line 2: field 4 (run time)", "'nan'"]),
        (JOBS.replace("12", "1e99"), ["line 2: field 4 (run time)", "'1e99'"]),
        (JOBS.replace("12", "1_0"), ["line 2: field 4 (run time)", "'1_0'"]),
        (JOBS.replace("12", "\u0661\u0662"), ["line 2: field 4 (run time)", "'\u0661\u0662'"]),
        (JOBS.replace("12", "-7"), ["line 2: field 4 (run time)", "or -1 if unknown", "'-7'"]),
        (JOBS.replace("12 4", "12 1e-9"), ["line 2: field 5 (allocated processors)", "whole", "'1e-9'"]),
        (JOBS.replace("12 4", "12 1e-400"), ["line 2: field 5 (allocated processors)", "'1e-400'"]),
        (JOBS.replace("12 4", "12\xa04"), ["line 2: a job has 18 numbers, and this line has 17"]),
        (JOBS.replace("2 5", "2.5 5"), ["line 2: field 1 (job number)", "'2.5'"]),
        (JOBS.replace("20 -1 1 1", "20 -1 9 1", 1), ["line 1: field 11 (status)", "'9'"]),
        (JOBS.replace("0 12 4 -1 -1", "0 12 4 -1 inf"), ["line 2: field 7 (used memory)", "'inf'"]),
        (JOBS + "3 4\n", ["line 3: a job has 18 numbers, and this line has 2", "'3 4'"]),
        (
            JOBS.replace("2 5", "2 5000000000"),
            ["must be shorter than 5e+08 s: job 2 arrives 5e+09 s after job 1"],
        ),
        ((HEADER + JOBS).encode("utf-16"), ["line 1", "UTF-8"]),
        (JOBS.replace(" 1 1 1", " 2 1 1", 1).replace("12 4", "-1 4"), ["1 partial record, 1 never ran"]),
        ("; nothing\n", ["it has no jobs"]),
        (SACCT.replace("|60|4|", "|6\u0660|4|", 1), ["line 2: ElapsedRaw", "'6\u0660'"]),
        (SACCT.replace("|60|4|", "|60|4.5|", 1), ["line 2: AllocCPUS", "'4.5'"]),
        (SACCT.replace("7|7|", "7|7_|"), ["line 2: JobIDRaw", "'7_'"]),
        (SACCT.replace("12_3|", "12_x|"), ["line 5: JobID must be a job", "'12_x'"]),
        (SACCT.replace("1-00:00:10", "10"), ["line 2: Timelimit", "UNLIMITED", "'10'"]),
        (SACCT.replace("|TIMEOUT|", "|TIME|"), ["line 7: State", "'TIME'"]),
        (
            "JobID|Submit|ElapsedRaw|JobName|AllocCPUS|State\n7|2024-01-01T00:00:00|60|a|8|2|COMPLETED\n",
            [
                "line 2: a job must have 6 fields, as the line of names, and has 7",
                "a|8|2",
                "leave its column out",
            ],
        ),
        ("", ["it has no jobs"]),
        (
            "JobID|Submit|AllocCPUS\n",
            ["line 1: the line of names", "missing are ElapsedRaw or Elapsed or End"],
        ),
        *(
            (submitted(at), [at, "line 2: Submit ", "SLURM_TIME_FORMAT=standard sacct"])
            for at in ("00:00:00", "Mon 10:00", "1 Jan", "01/01-00:00:00", "20240101000000", "2401010000")
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_line_field_value_and_remedy(tmp_path, text, words):
    path = made(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read(path)
    said = str(caught.value)
    assert str(path) in said and caught.value.remedy
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize("at", ["1704067200", "2024-01-01T00:00:00", "2024-01-01 01:00:00+0100"])
def test_times_of_sacct_are_read(tmp_path, at):
    text = submitted(at) + "2|2024-01-01T00:00:10Z|5|1\n"
    assert read(made(tmp_path, text)).jobs.submit_ns.tolist() == [0, 10 * S]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_damaged_compression_is_a_message(tmp_path, pack):
    chance = random.Random(1)
    whole = pack((HEADER + JOBS * 20).encode())
    for cut in range(len(whole) - 1):
        damaged = bytearray(whole[: cut + 1] if cut % 2 else whole)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        try:
            assert read(made(tmp_path, bytes(damaged))).numbers.tolist() == [1] * 20 + [2] * 20
        except InputError as error:
            assert str(tmp_path) in str(error)


def test_a_device_is_no_trace():
    with pytest.raises(InputError, match="may never end"):
        read(Path("/dev/zero"))


def test_what_is_assumed_is_counted(tmp_path):
    lines = ["10 4 -1 -1 4 -1", "10 4 -1 -1 4 7", "0.5 4 -1 -1 4 20", "10 -1 -1 -1 4 20"]
    text = "".join(f"{n} {n} -1 {line} -1 1 1 1 -1 1 -1 -1 -1\n" for n, line in enumerate(lines))
    trace = read(made(tmp_path, text))
    assert sorted(trace.assumed.values()) == [1, 1, 1, 1] and trace.skipped == {}
    assert trace.jobs.estimates_ns().tolist() == [10 * S, 10 * S, 20 * S, 20 * S]
    assert [word for reason in trace.assumed for word in ("missing", "below") if word in reason] != []


EXPERIMENT = 'level = "jobs"\n' + "".join(
    f'[[schedulers]]\npolicy = "{name}"\n' for name in ("fcfs", "easy", "gang", "batch")
)


def study(folder, text, *settings):
    log = str(made(folder, text))
    return SimulatedByJob.of(experiment.load(tomllib.loads(EXPERIMENT), settings=settings, log=log))


def test_a_larger_job_is_named_by_its_number_and_the_remedy_helps(tmp_path):
    large = HEADER + JOBS + JOBS.splitlines()[1].replace("2 5 0 12 4", "77 9 0 10 5000") + "\n"
    with pytest.raises(
        InputError, match=r"job 77 of the log asks for 5000 .*\(1 of 3 jobs .*--set processors=5000,"
    ):
        study(tmp_path, large)
    assert study(tmp_path, large, "processors=5000").experiment.processors == 5000
    with pytest.raises(InputError, match="--set processors=4 "):
        study(tmp_path, JOBS)
    assert study(tmp_path, JOBS, "processors=4").experiment.processors == 4
    with pytest.raises(InputError, match="to 1000000"):
        study(tmp_path, JOBS, "processors=1000001")


@pytest.mark.parametrize("header", ["", "; MaxProcs: 4\n"])
def test_the_load_is_that_of_the_simulated_machine(tmp_path, header):
    found = study(tmp_path, header + JOBS, "processors=8", "log.load=0.5").logs[0]
    work_s = 10 * 4 + 12 * 4
    span_s = found.jobs.submit_ns[1] / S
    assert work_s / (8 * span_s) == pytest.approx(0.5)


FOLLOWING = """; MaxProcs: 8
1 20 0 1200 1 -1 -1 1 1200 -1 1 1 1 1 1 1 -1 0
2 20 0 2100 5 -1 -1 5 2100 -1 1 1 1 1 1 1 1 0
3 20 0 900 1 -1 -1 1 900 -1 1 1 1 1 1 1 2 60
4 9000 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 1 -1
5 40 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 77 5
"""


def outcomes(back_end):
    """When which job ran under each scheduler that can keep up."""
    schedules = [back_end.run(task).schedule for task in back_end.tasks]
    kept = [known(one.outcome, one.processors)[0] for one in schedules if one and not one.saturated]
    assert len(kept) == len(back_end.tasks) > 1
    return kept


@pytest.mark.slow
def test_jobs_that_follow_others_arrive_after_them_under_every_policy(tmp_path):
    back_end = SimulatedByJob.of(experiment.load("log", log=str(made(tmp_path, FOLLOWING))))
    assert list(back_end.logs[0].assumed.values()) == [1], "job 77 is not there"
    assert back_end.logs[0].numbers.tolist() == [1, 2, 3, 5, 4]
    for outcome in outcomes(back_end):
        arrivals = (outcome.jobs.submit_ns / S).tolist()
        after = [0, outcome.finish_ns[0] / S, outcome.finish_ns[1] / S + 60, 20, 8980]
        assert arrivals == after
        assert (outcome.start_ns >= outcome.jobs.submit_ns).all()


@pytest.mark.slow
def test_of_preceding_jobs_that_take_turns_each_start_is_known(tmp_path):
    text = "".join(FOLLOWING.splitlines(keepends=True)[:4])
    back_end = study(tmp_path, text)
    for outcome in outcomes(back_end):
        assert (outcome.start_ns / S).tolist() == [0, 1200, 3360]


def test_what_no_clock_holds_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot do the work of the log within 5e\+08 s"):
        study(tmp_path, HEADER + JOBS.replace("0 10 4", "0 500000000 8"))
    assert len(study(tmp_path, HEADER + JOBS, "log.load=0.5").logs[0].jobs) == 2
    with pytest.raises(InputError, match="cannot arrive within"):
        study(tmp_path, HEADER + JOBS.replace("0 10 4", "0 1000 8"), "log.load=0.000001")
    with pytest.raises(InputError, match="arrive at once"):
        study(tmp_path, HEADER + JOBS.replace("2 5", "2 0"), "log.load=0.5")


@pytest.mark.slow
@pytest.mark.parametrize("at_s, responses_s", [(0, [11, 11, 11, 16]), (20_000_000, [11] * 4)])
def test_arrivals_at_one_instant_and_gaps_of_months_are_simulated(tmp_path, at_s, responses_s):
    back_end = study(tmp_path, HEADER + JOBS.replace("2 5", f"2 {at_s}"))
    rows = [*map(back_end.run, back_end.tasks)]
    assert [row.schedule.saturated for row in rows] == [""] * 4
    assert [row.schedule.metrics["response_s"] for row in rows] == responses_s


@pytest.mark.parametrize("line", ["1 \u0662", "1_0 1", "1 nan", "1\x0c2 1", "1 1e-400", "1 -1", "1e300 1"])
def test_loads_of_an_owner_are_read_as_strictly(tmp_path, line):
    made(tmp_path, f"0 1\n{line}\n", "load.txt")
    with pytest.raises(InputError, match="line 2") as error:
        owners.parse([{"trace": "load.txt"}], tmp_path)
    assert error.value.key == "owners[0].trace"


ENDLESS = {"easy": {}, "dyn-equi": {}, "dqt": {"quantum_ms": 0.01}, "gang": {"quantum_ms": 1000}}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_a_long_simulation_ends_when_its_caller_is_interrupted(name):
    count = 200_000 if name == "easy" else 20_000
    arrivals = np.arange(count, dtype=np.int64)  # of one instant, a policy in Python decides on all at once
    jobs = rigid(arrivals, 1 + np.arange(count) % 50, np.full(count, 1000 * S))
    policy = policies.create(name, ENDLESS[name])
    short = rigid(arrivals[:2], np.ones(2, dtype=np.int64), np.full(2, S // 1000))
    simulate(short, 64, policy)  # compiles, if need be
    caught = []

    def work():
        try:
            simulate(jobs, 64, policy)
        except InterruptedSimulationError as error:
            caught.append(error)

    with interruption.interruptible():
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(0.3)
        running = thread.is_alive()
        interruption.interrupt()
        thread.join(60)
        assert (running, thread.is_alive(), len(caught)) == (True, False, 1)


PIECES = ["", " ", "\t", "\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\xa0", ";", "|"]
PIECES += ["-", "+", ".", "e", "E9", "_", "0", "9", "99999", "\u00b2", "\u0663", "nan", "inf", "-1", "1e400"]
PIECES += [
    *("T", ":", "Z", "+01:00", ".batch", "+1", "_2", "[", "]", "COMPLETED", "\ufeff", "0x10", "1.0", "1.5")
]


def mutated(chance):
    header = chance.choice(["", HEADER, "; MaxNodes: 7\n; MaxProcs:\n", "; MaxProcs: -1\n; Note: x\n"])
    text = chance.choice([header + JOBS, SACCT, SACCT.replace("2024-01-01T00:00:30", "1704067230")])
    for _ in range(chance.choice([0, 1, 1, 1, 2, 4])):
        first = chance.randrange(len(text))
        match chance.randrange(4):
            case 0:
                text = text[:first] + chance.choice(PIECES) + text[first:]
            case 1:
                text = text[:first] + chance.choice(PIECES) + text[first + 1 :]
            case 2:  # a field in the place of another one
                words = text.replace("|", " | ").split(" ")
                words[chance.randrange(len(words))] = chance.choice(words + PIECES)
                text = " ".join(words).replace(" | ", "|")
            case 3:
                lines = text.splitlines(keepends=True)
                lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
                text = "".join(lines)
    data = bytearray(text.encode())
    if chance.random() < 0.1:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def as_slowly(trace, data):
    """Assert that a trace is as the slow reader reads it."""
    slow = slow_trace_reader.read(data)
    jobs = trace.jobs
    assert trace.numbers.tolist() == [job.number for job in slow]
    assert jobs.max_processes.tolist() == [job.size for job in slow]
    for fast_ns, slow_s in (
        (jobs.submit_ns, [job.submit - slow[0].submit for job in slow]),
        (jobs.times_ns(jobs.max_processes), [max(job.run, 1) for job in slow]),
        (jobs.estimates_ns(), [max(job.asked, job.run, 1) for job in slow]),
    ):
        np.testing.assert_allclose(fast_ns, [float(s * S) for s in slow_s], rtol=1e-12, atol=2000)


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.soak)])
def test_no_trace_is_read_other_than_a_slow_reader_reads_it(tmp_path, count):
    refused = 0
    for seed in range(count):
        data = mutated(random.Random(seed))
        try:
            try:
                trace = read(made(tmp_path, data))
            except InputError as error:
                refused += 1
                assert str(tmp_path) in str(error) and error.remedy
                with pytest.raises(RefusedError):
                    slow_trace_reader.read(data)
            else:
                as_slowly(trace, data)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {data!r}") from error
    print(f"{count} traces: {refused} refused, 0 tracebacks, 0 rows read otherwise")
    assert count // 4 < refused < count

"""Logs as people keep them: each has a right value, or one line says what is wrong, where, and what to do."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from coordinator.view import Submitter
from harness.cli import main
from harness.predict.trace import read
from workloads.validation import InputError

S = 1_000_000_000
SWF = "1 0 -1 60 4 -1 -1 4 90 -1 1 -1 -1 -1 -1 -1 -1 -1\n2 10 -1 30 2 -1 -1 2 30 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
HEADER = "JobID|JobIDRaw|Submit|Start|End|ElapsedRaw|AllocCPUS|State|Timelimit\n"
FIRST = "1|1|2024-03-01T00:00:00|2024-03-01T00:00:10|2024-03-01T00:01:10|60|4|COMPLETED|00:01:30\n"
SECOND = "2|2|2024-03-01T00:00:10|2024-03-01T00:00:20|2024-03-01T00:00:50|30|2|COMPLETED|00:00:30\n"
SACCT = HEADER + FIRST + SECOND


def state(name, elapsed=60):
    return SACCT + f"3|3|2024-03-01T00:00:30|2024-03-01T00:01:00|Unknown|{elapsed}|1|{name}|UNLIMITED\n"


TABLE = """       JobID              Submit    Elapsed  AllocCPUS      State  Timelimit
------------ ------------------- ---------- ---------- ---------- ----------
           1 2024-03-01T00:00:00   00:01:00          4  COMPLETED   00:01:30
     1.batch 2024-03-01T00:00:00   00:01:00          4  COMPLETED
           2 2024-03-01T00:00:10   00:00:30          2 CANCELLED+   00:00:30
"""


def archive():
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        entry = tarfile.TarInfo("log.swf")
        entry.size = len(SWF)
        tar.addfile(entry, io.BytesIO(SWF.encode()))
    return held.getvalue()


def zipped():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("log.swf", SWF)
    return held.getvalue()


SAME = {
    "SWF": SWF,
    "tabs": SWF.replace(" ", "\t"),
    "CRLF, mark": "\ufeff" + SWF.replace("\n", "\r\n"),
    "floats": SWF.replace(" -1", " -1.0").replace(" 60 4 ", " 60.0 4.00 "),
    "exponents": SWF.replace(" 60 ", " 6e1 "),
    "no end of line": SWF.rstrip(),
    "comments in between": "; UnixStartTime: 0\n" + SWF.replace("\n2", "\n; month 2\n\n2") + "; end\n",
    "a comment behind a job": SWF.replace("\n2", " ; first\n2"),
    "out of order": "".join(reversed(SWF.splitlines(keepends=True))),
    "unknown preceding job 0": SWF.replace("-1 -1\n", "0 0\n"),
    "gzip": gzip.compress(SWF.encode()),
    "two members of gzip": b"".join(gzip.compress(line.encode()) for line in SWF.splitlines(keepends=True)),
    "xz": lzma.compress(SWF.encode()),
    "bzip2": bz2.compress(SACCT.encode()),
    "sacct": SACCT,
    "sacct -p": SACCT.replace("\n", "|\n"),
    "sacct, commas": SACCT.replace("|", ","),
    "sacct, tabs": SACCT.replace("|", "\t"),
    "sacct, quoted": SACCT.replace("|", '","')
    .replace("\n", '"\n')
    .replace("J", '"J', 1)
    .replace("\n", '\n"', 2),
    "sacct, small letters": SACCT.replace(HEADER, HEADER.lower()),
    "sacct, only JobIDRaw": SACCT.replace("JobID|JobIDRaw|", "User|JobIDRaw|"),
    "sacct, a table": TABLE,
    "a warning above": "sacct: warning: slow\n" + SACCT,
    "put together": HEADER + FIRST + HEADER + SECOND,
    "put together, other columns": HEADER
    + FIRST
    + TABLE.splitlines(keepends=True)[0].replace(
        "       JobID              Submit    Elapsed  AllocCPUS      State  Timelimit",
        "JobID|Submit|Elapsed|NCPUS|TimelimitRaw",
    )
    + "2|2024-03-01T00:00:10|00:00:30|2|\n",
    "NCPUS, Elapsed, TimelimitRaw": "JobID|Submit|Elapsed|NCPUS|TimelimitRaw|ReqMem\n"
    "1|2024-03-01T00:00:00|00:01:00|4|1.5|2Gn\n2|2024-03-01T00:00:10|00:30|2|Partition_Limit|100M\n",
    "Start and End": "JobID|Submit|Start|End|NCPUS|Timelimit\n"
    "1|2024-03-01T00:00:00|2024-03-01T00:00:10|2024-03-01T00:01:10|4|00:01:30\n"
    "2|2024-03-01T00:00:10|2024-03-01T00:00:20|2024-03-01T00:00:50|2|UNLIMITED\n"
    "3|2024-03-01T00:00:10|2024-03-01T00:00:20|Unknown|2|UNLIMITED\n",
    "never began": state("NODE_FAIL").replace("2024-03-01T00:01:00|Unknown", "None|Unknown"),
    "cancelled before it ran": state("CANCELLED by 1000", 0),
    "cancelled, cut": state("CANCELLED+", 0),
    "steps of arrays and heterogeneous jobs": SACCT
    + "".join(
        FIRST.replace("1|1", f"{name}|{name}", 1) for name in ("7_1.extern", "8+0.batch", "1.0", "1.0+1")
    ),
    "submitted at an unknown time": SACCT + FIRST.replace("1|1|2024-03-01T00:00:00", "3|3|Unknown"),
    **{
        name: state(name)
        for name in ("RUNNING", "PENDING", "POWER_UP_NODE", "EXPEDITING", "UPDATE_DB", "COMPLETI+", "S", "PD")
    },
}


def short(trace):
    jobs = trace.jobs
    columns = (jobs.submit_ns, jobs.max_processes, jobs.times_ns(jobs.max_processes), jobs.estimates_ns())
    return trace.numbers.tolist(), *(column.tolist() for column in columns)


@pytest.mark.parametrize("name", SAME)
def test_the_same_two_jobs_are_read_however_they_are_kept(tmp_path, name):
    text = SAME[name]
    path = tmp_path / "log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    trace = read(path)
    assert short(trace) == ([1, 2], [0, 10 * S], [4, 2], [60 * S, 30 * S], [90 * S, 30 * S])
    assert trace.jobs.following is None or (trace.jobs.following.preceding == -1).all()


def test_a_limit_of_days_hours_minutes_and_seconds_is_read(tmp_path):
    (tmp_path / "log").write_text(SACCT.replace("00:01:30", "2-03:04:05.5"))
    limit_s = ((2 * 24 + 3) * 60 + 4) * 60 + 5.5
    assert read(tmp_path / "log").jobs.estimates_ns()[0] == limit_s * S


CONVERT = "write a line for each job: NUMBER SUBMIT_S -1 RUN_S"
WORDS = "id\tsubmit\twait\truntime\tcpus\t5\t6\t7\t8".replace("5\t6\t7\t8", "\t".join("abcdefghijklmno"))
REFUSED = {
    "empty": ("", ["it has no jobs"]),
    "only comments": ("; MaxProcs: 4\n; nothing\n", ["it has no jobs"]),
    "only names": (HEADER, ["it has no jobs"]),
    "all run": (HEADER + FIRST.replace("COMPLETED", "RUNNING"), ["1 still running"]),
    "negative": (SWF.replace(" 60 ", " -60 "), ["line 1: field 4 (run time)", "'-60'"]),
    "two points": (SWF.replace(" 60 ", " 6.0.0 "), ["line 1: field 4 (run time)", "'6.0.0'"]),
    "a huge number": (
        SWF.replace("2 10", f"{10**17} 10"),
        ["line 2: field 1 (job number)", "to 9007199254740992"],
    ),
    "huge": (SWF.replace("2 10", f"{'9' * 400} 10"), ["line 2: field 1 (job number)"]),
    "17 columns": (SWF.replace(" -1\n", "\n"), ["line 1: a job has 18 numbers, and this line has 17"]),
    "20 columns": (SWF.replace("\n", " 3 4\n"), ["line 1", "this line has 20", "awk '{NF = 18; print}'"]),
    "no columns of sacct": (
        "JobID|User\n1|a\n",
        ["line 1: the line of names", "are Submit, Elapsed"],
    ),
    "a table without dashes": (TABLE.partition("\n")[0] + "\n", ["line 1: a table", "--parsable2"]),
    "an unknown state": (state("DONE"), ["line 4: State must be one of", "'DONE'"]),
    "a cut number": (state("FAILED").replace("3|3", "1234567_1+|3"), ["line 4: JobID", "--parsable2"]),
    "days without hours": (SACCT.replace("00:01:30", "1-02:30"), ["line 2: Timelimit", "'1-02:30'"]),
    "half a job": (
        SACCT.rsplit("|", 3)[0],
        ["line 3: a job must have 9 fields, as the line of names, and has 6"],
    ),
    "follows itself": (SWF.replace("-1 -1\n2", "1 5\n2"), ["job 1 follows itself", "write -1"]),
    "a circle": (SWF.replace("-1 -1\n2", "2 -1\n2")[:-6] + "1 -1\n", ["follows itself"]),
    "half a preceding job": (SWF.replace("-1 -1\n2", "1.5 0\n2"), ["line 1: field 17 (preceding job)"]),
    "a negative think time": (SWF.replace("-1 -1\n2", "-1 -7\n2"), ["line 1: field 18 (think time)"]),
    "sacct without names": (FIRST + SECOND, ["line 1", "sacct without the line", "without --noheader"]),
    "a step first": ("1.batch" + FIRST[1:], ["sacct without the line"]),
    "names": (
        WORDS + "\n1\t2\n",
        ["table with the columns id, submit, wait", "+2 FILE | cut -f1-18"],
    ),
    "names and commas": (
        WORDS.replace("\t", ",") + "\n",
        ["cut -d',' -f1-18 | tr ',' ' '"],
    ),
    "a table": ("job,start,end,nodes\n1,2,3,4\n", ["with the columns job, start, end, nodes", CONVERT]),
    "commas": (SWF.replace(" ", ","), ["a job log with commas", "tr ',' ' '"]),
    "comments of #": ("# MaxProcs: 4\n" + SWF, ["sed 's/^#/;/'"]),
    "PBS": ("04/27/2024 00:00:01;E;1.s;user=a start=2 end=9\n", ["accounting of PBS or Torque", CONVERT]),
    "LSF": ('"JOB_FINISH" "10.1" 1700000000 1 2\n', ["accounting of LSF", CONVERT]),
    "Grid Engine": ("all.q:n1:g:u:job:7" + ":0" * 40 + "\n", ["accounting of Grid Engine", CONVERT]),
    "squeue": ("JOBID PARTITION NAME USER ST TIME NODES\n", ["squeue, which knows no jobs that ended"]),
    "JSON": ('{"jobs": [{"job_id": 1}]}\n', ["seems to be JSON", "sacct --parsable2", CONVERT]),
    "a page": ("<!DOCTYPE html>\n<html>\n", ["a page of the web", "download the log itself"]),
    "a pointer": ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", ["git lfs pull"]),
    "a schedule": ("job_id,workload_name,submission_time\n1,w,0\n", ["Batsim", "give the .swf.gz beside it"]),
    "a program": (b"\x7fELF\x02\x01\x01\0\0", ["line 1", "without a byte 0"]),
    "zip": (zipped(), ["is a zip archive", "unzip -p "]),
    "tar": (archive(), ["is a tar archive", "tar -xOf "]),
    "tar.gz": (gzip.compress(archive()), ["is a tar archive", "tar -xOf "]),
    "zstd": (b"\x28\xb5\x2f\xfd" + b"12345", ["compressed by zstd", "zstd -dc "]),
    "truncated gzip": (gzip.compress(SWF.encode())[:-9], ["compression is damaged or incomplete"]),
    "prose": ("Dear colleague,\nhere is the log.\n", ["line 1: a job has 18 numbers"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_line_says_what_is_no_log_and_what_to_do(tmp_path, name):
    text, words = REFUSED[name]
    path = tmp_path / "log"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        read(path)
    said = str(caught.value)
    assert str(path) in said and "\n" not in said and caught.value.remedy
    assert [word for word in words if word not in said] == [], said


BECOMES = {"it ran": {}, "it ran if it took some time": {}}
BECOMES |= {f"left out: {reason}": {reason: 1} for reason in ("still running", "never ran")}


@pytest.mark.parametrize("becomes", BECOMES)
def test_each_state_that_the_page_of_formats_names_is_read_so(tmp_path, becomes):
    page = Path(__file__).parents[3] / "docs" / "reference/job-level.md"
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines()]
    (states,) = [re.findall(r"`(\w+)`", row[0]) for row in rows if row[1:] == [becomes]]
    for name in states:
        (tmp_path / "log").write_text(state(name))
        assert (name, read(tmp_path / "log").skipped) == (name, BECOMES[becomes])
    if becomes == "it ran if it took some time":
        for name in states:
            (tmp_path / "log").write_text(state(name, elapsed=0))
            assert (name, read(tmp_path / "log").skipped) == (name, {"never ran": 1})


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("log.swf.gz", gzip.compress(SWF.encode())),
        ("log.txt", SACCT.encode()),
        ("log.txt", b"\xef\xbb\xbf; MaxProcs: 4\n" + SWF.encode()),
        ("log.swf", b"id submit wait\n"),
        ("log.swf", b"x" * 5_000_000),
    ],
    ids=["compressed", "of sacct", "with a mark", "names of columns", "long"],
)
def test_a_log_where_an_experiment_belongs_is_told_its_command(tmp_path, capsys, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    for command in ("simulate", "run"):
        assert main([command, str(path)]) == 2
        assert (
            f"is a job log, not an experiment; simulate its jobs: {REMEDY} {path}" in capsys.readouterr().err
        )


def test_a_log_for_an_experiment_of_processes_is_refused(capsys):
    assert main(["simulate", "three-jobs", "--log", "log.swf"]) == 2
    assert f"three-jobs.toml has no table [log] for it; write {REMEDY} FILE" in capsys.readouterr().err


REMEDY = "lockstep simulate log --log"


def test_logs_say_who_submitted_a_job_and_to_what(tmp_path):
    fields = "{} {} -1 60 4 -1 -1 4 90 -1 1 {} {} -1 {} {} -1 -1\n"
    swf = tmp_path / "log.swf"
    swf.write_text(fields.format(1, 0, 3, 7, -1, 2) + fields.format(2, 5, -1, -1, 9, -1))
    first, second = (job.submitter for job in read(swf).jobs.views())
    assert (first, second) == (Submitter("3", "7", "2"), Submitter(qos="9"))
    sacct = tmp_path / "jobs.txt"
    heading = HEADER.strip() + "|User|Account|Partition|QOS\n"
    sacct.write_text(heading + FIRST.strip() + "|ann|physics|short|high\n" + SECOND.strip() + "||physics||\n")
    first, second = (job.submitter for job in read(sacct).jobs.views())
    assert (first, second) == (Submitter("ann", "physics", "short", "high"), Submitter(account="physics"))
    swf.write_text(SWF)
    assert read(swf).jobs.submitters == ()


def test_names_of_a_log_that_are_long_or_not_printable_refuse_no_job(tmp_path):
    sacct = tmp_path / "jobs.txt"
    names = HEADER.strip() + "|User|Partition\n"
    sacct.write_text(f"{names}{FIRST.strip()}|{'a' * 200}|a\x07b\n")
    (job,) = read(sacct).jobs.views()
    assert job.submitter == Submitter("a" * 100, partition="a?b")


@pytest.mark.parametrize(("estimate", "unknown"), [("last-two", 1), ("user", None)])
def test_jobs_of_unknown_users_are_counted_where_users_matter(tmp_path, capsys, estimate, unknown):
    path = tmp_path / "log.swf"
    first, second = SWF.splitlines()
    path.write_text(f"{first}\n{second.replace(' 1 -1', ' 1 5', 1)}\n")
    scheduler = f"ordered backfill=easy estimate={estimate}"
    words = ["simulate", "log", "--log", str(path), "--set", "processors=4", "--policy", scheduler, "--json"]
    assert main(words) == 0
    assumed = json.loads(capsys.readouterr().out)["assumed"]
    assert assumed.get("users unknown, so that predictions are the estimates") == unknown

"""Workloads of Batsim, made from job logs, by the rules that Batsim checks when it reads one."""

import json
import os
import threading

import pytest

from harness.cli import main

LOG = """; MaxProcs: 16
7 100 5 1200 16 -1 -1 16 3600 -1 1 1 1 -1 1 -1 -1 -1
8 130 5 2400 8 -1 -1 8 -1 -1 1 2 1 -1 1 -1 -1 -1
9 140 5 60 2 -1 -1 2 30 -1 0 2 1 -1 1 -1 -1 -1
10 150 5 -1 2 -1 -1 2 30 -1 5 2 1 -1 1 -1 -1 -1
11 160 5 60 1 -1 -1 1 90 -1 1 2 1 -1 1 -1 -1 -1
"""
AGAIN = """JobID|JobIDRaw|Submit|Start|ElapsedRaw|AllocCPUS|State|Timelimit
20|20|2024-01-01T00:00:10|2024-01-01T00:01:00|30|2|COMPLETED|00:01:00
20|20|2024-01-01T00:09:30|2024-01-01T00:15:00|5|2|COMPLETED|00:01:00
"""
TYPES = {4: "delay", 5: "DelayProfile"}


def check(workload, version):
    """Refuse what Batsim's ``Workload``, ``Job`` and ``Profile`` refuse to read."""
    assert type(workload["nb_res"]) is int and workload["nb_res"] > 0
    for name, profile in workload["profiles"].items():
        assert name and profile["type"] == TYPES[version] and profile["delay"] > 0
    ids = [job["id"] for job in workload["jobs"]]
    assert len({*ids}) == len(ids) and all(type(one) is str for one in ids)
    for job in workload["jobs"]:
        assert job.keys() <= {"id", "subtime", "res", "profile", "walltime"}
        assert type(job["res"]) is int and 0 < job["res"] <= workload["nb_res"]
        assert job["profile"] in workload["profiles"] and job["subtime"] >= 0
        assert "walltime" not in job or job["walltime"] > 0


@pytest.fixture
def written(tmp_path, capsys):
    def written(text, version, *options):
        (tmp_path / "jobs.txt").write_text(text)
        file = tmp_path / "workload.json"
        words = ["log", str(tmp_path / "jobs.txt"), "--format", f"batsim-{version}", "-o", str(file)]
        assert main([*words, *options]) == 0
        workload = json.loads(file.read_text())
        check(workload, version)
        return workload, capsys.readouterr().out

    return written


@pytest.mark.parametrize("version", TYPES)
def test_a_workload_has_the_jobs_of_the_log_that_ran(written, version):
    workload, said = written(LOG, version)
    assert workload["nb_res"] == 16 and f"Batsim {version}" in workload["description"]
    jobs = [(job["id"], job["subtime"], job["res"], job.get("walltime")) for job in workload["jobs"]]
    assert jobs == [("7", 0, 16, 3600), ("8", 30, 8, None), ("9", 40, 2, 60), ("11", 60, 1, 90)]
    delays = [workload["profiles"][job["profile"]]["delay"] for job in workload["jobs"]]
    assert delays == [1200, 2400, 60, 60]
    assert "4 jobs on 16 processors" in said and "left out: 1 never ran" in said
    assert "assumed: 1 estimates missing" in said and "assumed: 1 estimates below the run times" in said


def test_a_number_that_comes_again_gets_a_suffix(written):
    workload, _ = written(AGAIN, 5, "--processors", "4")
    assert [job["id"] for job in workload["jobs"]] == ["20", "20.2"] and workload["nb_res"] == 4


def test_a_workload_comes_from_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(LOG,))
    writer.start()
    assert main(["log", str(pipe), "--format", "batsim-4", "-o", str(tmp_path / "a.json")]) == 0
    writer.join()
    check(json.loads((tmp_path / "a.json").read_text()), 4)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--format", "batsim-3"], ["--format = 'batsim-3'", "batsim-4"]),
        (["--format", "batsim-5", "--policy", "easy"], ["--policy = 'easy'", "cannot be combined"]),
        (["--format", "batsim-5", "--open"], ["--open: cannot be combined"]),
        (["--format", "batsim-5", "--processors", "8"], ["--processors = 8", "job 7 of the log asks for 16"]),
        (["--format", "batsim-5", "-o", "no/such.json"], ["--output", "no/such.json"]),
        (["-o", "a.json"], ["--output = 'a.json'", "must end in .svg or .png", "--format"]),
    ],
)
def test_what_cannot_be_written_is_one_line(tmp_path, capsys, options, words):
    (tmp_path / "log.swf").write_text(LOG)
    assert main(["log", str(tmp_path / "log.swf"), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(word in line for word in words)

"""What ``lockstep log`` says of a log."""

import json
import random

import pytest

from harness.analyse.job_log import HOUR_S, Part, describe
from harness.cli import main
from workloads.validation import InputError

HEADER = "; MaxProcs: 8\n; UnixStartTime: 1700000000\n; TimeZone: -28800\n; TimeZoneString: Nowhere/City\n"
"""23:13:20 on 2023-11-14 in UTC, eight hours earlier there."""


def line(number, submit_s, run_s, size, *, wait_s=-1, asked_s=-1, user=-1, status=1):
    return (
        f"{number} {submit_s} {wait_s} {run_s} {size} -1 -1 {size} {asked_s} -1 {status} {user}" + 6 * " -1"
    )


def described(path, *lines, header=HEADER):
    path.write_text(header + "\n".join(lines) + "\n")
    return describe(path)


def test_jobs_load_and_shares(tmp_path):
    log = described(
        tmp_path / "log.swf",
        line(1, 0, 1800, 8, wait_s=0, asked_s=3600, user=3),
        line(2, 1800, 7200, 1, wait_s=60, user=5),
        line(3, 7200, 3600, 3, wait_s=20, asked_s=3600, user=3),
        line(4, 7300, -1, 2, status=5),
    )
    work = [1800 * 8, 7200, 3600 * 3]
    assert (log.jobs, log.processors, log.span_s, log.skipped) == (3, 8, 7200, {"never ran": 1})
    assert log.load == pytest.approx(sum(work) / (8 * 7200))
    assert [hour.jobs for hour in log.hours] == [2, 0, 1]
    assert [hour.load * 8 * HOUR_S for hour in log.hours] == pytest.approx([work[0] + work[1], 0, work[2]])
    assert [(part.name, part.jobs) for part in log.sizes] == [("1", 1), ("3-4", 1), ("5-8", 1)]
    assert [part.work_share for part in log.sizes] == pytest.approx(
        [one / sum(work) for one in (work[1], work[2], work[0])]
    )
    assert [(user.name, user.jobs) for user in log.users] == [("3", 2), ("5", 1)]
    assert (log.wait_s.jobs, log.wait_s.median, log.wait_s.max) == (3, 20, 60)
    assert (log.estimate_factor.jobs, log.estimate_factor.median) == (2, 1.5)
    assert log.lacks == ("no estimates of 1 of 3 jobs: policies that backfill take the run times",)


def test_the_clock_is_the_logs(tmp_path):
    log = described(tmp_path / "log.swf", line(1, 0, 60, 1), line(2, 3600, 60, 8))
    assert log.begins == "2023-11-14T14:13:20-08:00"
    assert [number for number, hour in enumerate(log.hours_of_day) if hour.jobs] == [14, 15]


def test_a_log_without_a_clock_counts_hours_from_the_first_job(tmp_path):
    log = described(tmp_path / "log.swf", line(1, 50, 60, 1), line(2, 50 + 25 * 3600, 60, 8), header="")
    assert log.begins is None
    assert [hour.jobs for hour in log.hours_of_day[:3]] == [0.5, 0.5, 0]  # of two days
    assert log.lacks[-1] == "no number of processors: the largest job's is taken"


def test_waits_of_zero_are_doubted(tmp_path):
    log = described(tmp_path / "log.swf", line(1, 0, 60, 1, wait_s=0), line(2, 9, 60, 1, wait_s=0))
    assert "all recorded waits are 0: the times of submission may be those of the starts" in log.lacks


@pytest.mark.parametrize("seed", range(20))
def test_shares_and_loads_add_up(tmp_path, seed):
    chance = random.Random(seed)
    lines = [
        line(
            number, chance.randrange(500_000), chance.randrange(90_000), chance.randint(1, 8), user=number % 7
        )
        for number in range(chance.choice((1, 2, 300)))
    ]
    log = described(tmp_path / "log.swf", *lines)
    assert sum(part.work_share for part in log.sizes) == pytest.approx(1)
    assert sum(user.work_share for user in log.users) == pytest.approx(1)
    assert sum(hour.jobs for hour in log.hours) == log.jobs == sum(part.jobs for part in log.sizes)
    if log.load is not None:
        work_s = sum(hour.load for hour in log.hours) * 8 * HOUR_S
        assert log.load == pytest.approx(work_s / (8 * log.span_s))
    assert log.busiest.load <= max(hour.load for hour in log.hours) + 1e-9
    assert log.busiest.jobs <= log.jobs


SACCT = """JobIDRaw|Submit|Start|ElapsedRaw|AllocCPUS|State|Timelimit|User
1|2024-03-01T08:00:00|2024-03-01T08:01:40|60|4|COMPLETED|00:02:00|ann
2|2024-03-01T08:00:10|2024-03-01T08:00:20|600|2|COMPLETED|00:20:00|bob
3|2024-03-01T08:00:40|soon|60|1|COMPLETED|00:02:00|ann
"""


def test_sacct_has_names_of_users_and_waits(tmp_path):
    path = tmp_path / "jobs.txt"
    path.write_text(SACCT)
    log = describe(path)
    assert log.begins == "2024-03-01T08:00:00+00:00"
    assert [user.name for user in log.users] == ["bob", "ann"]
    assert log.users[0] == Part("bob", 1, pytest.approx(1200 / 1500))
    assert (log.wait_s.jobs, log.wait_s.max) == (2, 100)


@pytest.mark.parametrize(
    "text, fault",
    [
        (HEADER + f"{line(1, 0, 60, 1)}\n1 2 3\n{line(2, 1, 60, -7)}\n", "line 6: a job has 18 numbers"),
        (SACCT + "4|2024-03-01T08:00:40|Unknown|x|1|COMPLETED|00:02:00|ann\n", "line 5: ElapsedRaw"),
    ],
)
def test_lines_that_cannot_be_read_are_listed_and_left_out(tmp_path, capsys, text, fault):
    path = tmp_path / "log"
    path.write_text(text)
    status = main(["log", str(path), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert status == 1
    assert fault in document["faults"][0]
    assert document["jobs"] == text.count("COMPLETED") - 1 if "COMPLETED" in text else 1
    assert len(document["faults"]) == (1 if "COMPLETED" in text else 2)


def test_a_file_that_is_no_log_is_refused(tmp_path):
    path = tmp_path / "x.swf"
    path.write_text("hello, world\n")
    with pytest.raises(InputError, match=r"x\.swf"):
        describe(path)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture(tmp_path, capsys, kind):
    path = tmp_path / "log.swf"
    picture = tmp_path / f"log.{kind}"
    path.write_text(HEADER + line(1, 0, 60, 1) + "\n" + line(2, 700_000, 60, 8) + "\n")
    assert main(["log", str(path), "-o", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"<?xml" if kind == "svg" else b"\x89PNG")
    assert main(["log", str(path), "-o", str(tmp_path / "log.txt")]) == 2
    assert "--output" in capsys.readouterr().err


def test_processors_can_be_given(tmp_path, capsys):
    path = tmp_path / "log.swf"
    path.write_text(line(1, 0, 60, 4) + "\n" + line(2, 100, 60, 4) + "\n")
    assert main(["log", str(path), "--processors", "8"]) == 0
    output = capsys.readouterr().out
    assert "on 8 processors" in output and "no number of processors" not in output
    assert main(["log", str(path), "--processors", "0"]) == 2


def test_hours_of_the_day_begin_with_the_hour(tmp_path):
    """The first job comes at 13 minutes past 14: one that comes 50 minutes later comes after 15."""
    log = described(tmp_path / "log.swf", line(1, 0, 60, 1), line(2, 3000, 60, 8))
    assert [number for number, hour in enumerate(log.hours_of_day) if hour.jobs] == [14, 15]


@pytest.mark.parametrize("name", ["US", "x" * 5000, "../../etc"])
def test_a_time_zone_may_be_any_text(tmp_path, name):
    header = HEADER.replace("Nowhere/City", name)
    assert described(tmp_path / "log.swf", line(1, 0, 60, 1), header=header).begins.endswith("-08:00")


def test_a_log_of_broken_lines_only_is_refused_by_the_first(tmp_path):
    with pytest.raises(InputError, match="line 5: a job has 18 numbers"):
        described(tmp_path / "log.swf", "1 2 3", "4 5")


def test_faults_come_in_the_order_of_lines(tmp_path):
    bad = [line(2, 1, 60, 1, status=99), line(3, 1, 60, 1).replace("-1", "x", 1), line(4, 1, 60, -7)]
    log = described(tmp_path / "log.swf", line(1, 0, 60, 1), *bad, header="; MaxProcs: many\n")
    assert ["line 1:" in log.faults[0], *(f"line {n}:" in log.faults[n - 2] for n in (3, 4, 5))] == [True] * 4

"""Runs of a job log whose driver is killed at random instants, each time followed by ``--resume``.

``LOCKSTEP_KILLS`` says how many SIGKILLs there are (20), and ``LOCKSTEP_KILLS_SEED`` repeats a series.
"""

import os
import random
import signal
import time
from contextlib import suppress

import pytest
from kills import PATIENCE_S, remains
from lives import OneHost
from runs import AMONG_OTHERS, needs_two

from harness.measure import plan
from harness.spec import experiment
from harness.store import journal
from harness.store.database import Store
from harness.store.records import POLICY

SEED = os.environ.get("LOCKSTEP_KILLS_SEED", str(random.randrange(10**6)))
COUNT = int(os.environ.get("LOCKSTEP_KILLS", "20"))
JOBS = 60
LIFE_S, ENDS = 15.0, 16
"""Half of the kills come within so many seconds after the start of a command, which it needs for starting the
jobs; the others after at most so many further jobs have ended."""

FILE = f"""processors = 2
[log]
file = "queue.swf"
jobs = {JOBS}
minutes = 0.25
[[schedulers]]
policy = "easy"
[[schedulers]]
policy = "gang"
quantum_ms = 20
"""
COMMAND = (*AMONG_OTHERS, "run", "queue.toml", "--no-simulate", "--no-wait", "--results", "results")


def queue(chance):
    """Lines of a log: a job every 10 to 40 s, on half of the machine or all of it."""
    at_s = 0
    for number in range(1, JOBS + 1):
        size, run_s = chance.choice((8, 8, 16)), chance.choice((10, 20, 40))
        yield f"{number} {at_s} 0 {run_s} {size} -1 -1 {size} {2 * run_s} -1 1 1 1 -1 1 -1 -1 -1\n"
        at_s += chance.choice((10, 20, 30, 40))


def ended(place):
    """Results of the jobs that a journal has as over, by its file."""
    found = {}
    for path in place.glob("results/*.journal"):
        with path.open("rb") as file:
            past = journal.read(file.fileno(), None, pytest.fail).past
        found[path.name] = {number: end.job for number, end in past.ended.items() if not end.job.failure}
    return found


def gone(life):
    """Wait until nothing of a command remains; returns what does after PATIENCE_S."""
    begin_s = time.monotonic()
    while (left := remains(life)) and time.monotonic() < begin_s + PATIENCE_S:
        time.sleep(0.05)
    return left


def ends(place):
    """How many jobs the journals of a results directory have as over."""
    with suppress(FileNotFoundError):  # it goes when its run is recorded
        return sum(path.read_bytes().count(b'{"ends"') for path in place.glob("results/*.journal"))
    return 0


def lived(place, number, *, kill_s=0.0, more=0):
    """Let the command run, and kill its driver after that, unless it ends; returns its status and words.

    With ``more`` the time begins when so many more jobs have ended, or their run has.
    """
    folder = place / f"life-{number}"
    folder.mkdir()
    for name in ("queue.toml", "queue.swf", "results"):
        (folder / name).symlink_to(place / name)
    life = OneHost([*COMMAND, *(("--resume",) if number else ())], folder)
    try:
        first = ends(place)
        while life.status() is None and first <= ends(place) < first + more:
            time.sleep(0.02)
        begin_s = time.monotonic()
        while life.status() is None and time.monotonic() - begin_s < kill_s:
            time.sleep(0.01)
        if life.status() is None and (driver := life.driver()):
            with suppress(ProcessLookupError):
                os.kill(driver, signal.SIGKILL)
        while life.status() is None:
            time.sleep(0.01)
        assert not gone(life), (SEED, number)
        return life.status(), life.said()
    finally:
        life.end()


@pytest.mark.soak
@needs_two
def test_no_job_is_lost_and_none_counted_twice(tmp_path):
    """What has ended before a kill is in the record as it was."""
    chance = random.Random(SEED)
    (tmp_path / "queue.toml").write_text(FILE)
    (tmp_path / "queue.swf").write_text("".join(["; MaxProcs: 16\n", *queue(chance)]))
    (tmp_path / "results").mkdir()
    before, kills, said = {}, [], ""
    for number in range(COUNT):
        if number % 2:
            status, said = lived(tmp_path, number, kill_s=chance.uniform(0.0, LIFE_S))
        else:
            more = chance.randint(1, ENDS)
            status, said = lived(tmp_path, number, kill_s=chance.uniform(0.0, 0.3), more=more)
        assert status in (0, -signal.SIGKILL), (SEED, number, said)
        now = ended(tmp_path)
        for name in before.keys() & now.keys():
            assert now[name].items() >= before[name].items(), (SEED, number)
        before |= now
        kills.append({name: len(jobs) for name, jobs in now.items()})
    status, said = lived(tmp_path, COUNT, kill_s=3600.0)
    print(f"LOCKSTEP_KILLS_SEED={SEED}: jobs that were over at each kill: {kills}\n{said}")
    assert status == 0, said
    wanted = experiment.load(str(tmp_path / "queue.toml"))
    with Store(tmp_path / "results", existing=True) as store:
        records = [record for record in store.runs(wanted.digest) if record.kind == POLICY]
    assert not [*tmp_path.glob("results/*.journal")]
    assert len(records) == 2
    names = {
        journal.RunName(record.digest, plan.key_of(record)).place(store.path).name: record
        for record in records
    }
    for name, record in names.items():
        assert [job.job for job in record.jobs] == [*range(JOBS)]
        assert not any(job.failure for job in record.jobs)
        ranks = [(rank.job, rank.rank) for rank in record.ranks]
        assert sorted(ranks) == [(job.job, rank) for job in record.jobs for rank in range(job.processes)]
        times = {job.job: (job.start_ns, job.finish_ns, job.requeued) for job in record.jobs}
        for number, job in before.get(name, {}).items():
            assert times[number] == (job.start_ns, job.finish_ns, job.requeued), (SEED, name, number)
        print(record.scheduler["policy"], record.conditions.interrupted_ns, record.conditions.ran_again)

"""A driver that takes the place of one that was killed: what it decides again, and real runs it saves."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crews import Crew
from faults import follow, kill_driver, part, says, start
from hypothesis import given
from hypothesis import strategies as st
from runs import UNCALIBRATED, eventually, state, workload

from coordinator import policies
from coordinator.decide.conductor import Conductor
from coordinator.decide.session import Session
from coordinator.drive import preflight, run_log
from coordinator.drive import run_log as log
from coordinator.drive.nodes import Contacts
from coordinator.drive.run_log import Beginning, Writer
from coordinator.drive.takeover import Replay
from coordinator.host import launch
from coordinator.host.environment import passed_on
from coordinator.host.launchers import Hydra
from coordinator.host.processes import environment_of
from coordinator.host.rundir import RunDirectory
from coordinator.view import Job, Machine, Reason
from coordinator.wire.zmq_transport import Keys
from coordinator.workload import Switch
from harness.store.database import Store

MS = 1_000_000


def happen(conductor, crew, jobs, choices):
    """A course of events; what the conductor makes of each is done before the next."""
    now_ns = -5 * MS
    lost = set()
    while not conductor.over:
        now_ns += choices.randrange(4) * MS
        due_ns = conductor.due_ns()
        if due_ns is not None and due_ns <= now_ns:
            yield log.Advanced(now_ns)
        job = choices.choice(jobs).number
        if conductor.is_over(job):
            continue
        if job in crew.places and job not in crew.begun:
            yield log.Ready(job, now_ns)
        elif job in crew.begun and choices.random() < 0.5:
            yield log.Left(job, "", {0: {"rank": 0}})
        elif not lost and choices.random() < 0.1:
            lost = {choices.randrange(2)}
            here = [job for job, place in crew.places.items() if lost & set(place)]
            here = [job for job in here if not conductor.is_over(job)]
            failed = tuple(job for job in here if job in crew.begun)
            displaced = tuple(job for job in here if job not in crew.begun)
            for job in displaced:
                del crew.places[job]
            yield log.Lost(min(lost), tuple(lost), "lost", failed, displaced)


@given(
    policy=st.sampled_from(["none", "gang", "partitioned", "batch", "two-queue", "easy"]),
    arrivals=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    choices=st.randoms(use_true_random=False),
)
def test_the_same_events_bring_a_new_conductor_to_the_same_decisions(policy, arrivals, choices):
    jobs = [Job(number, 1, at * MS, moldable=True) for number, at in enumerate(arrivals)]

    def session():
        return Session(policies.create(policy, {}), Machine(2), jobs)

    crew = Crew()
    conductor = Conductor(crew.watch(session()), jobs, crew, 5 * MS, [0, 1])
    conductor.prepare()
    seen = []
    for event in happen(conductor, crew, jobs, choices):
        seen.append(event)
        log.tell(conductor, event)
        if len(seen) > 60:
            break
    cut = choices.randrange(len(seen) + 1)
    again = Crew()
    replay = Replay(again.watch(session()), jobs, 5 * MS, [0, 1], seen[:cut])
    replay.conductor.crew = again
    running = {
        job for job, known in replay.states.items() if known.begun and not replay.conductor.is_over(job)
    }
    repeated = replay.conductor.crew = Crew()
    replay.conductor.repeat()
    assert repeated.begun.keys() == running
    assert all(place == replay.conductor.placements[job] for job, (_, place) in repeated.begun.items())
    replay.conductor.crew = again
    for event in seen[cut:]:
        log.tell(replay.conductor, event)
    assert again.decided == crew.decided
    assert replay.conductor.placements == conductor.placements
    assert replay.conductor.due_ns() == conductor.due_ns()
    assert again.published == crew.published[len(crew.published) - len(again.published) :]
    whole = Replay(session(), jobs, 5 * MS, [0, 1], seen)
    places = {job: known.launched for job, known in whole.states.items() if known.launched}
    assert places == crew.places
    assert {job for job, known in whole.states.items() if known.begun} == crew.begun.keys()
    repeated = Crew()
    whole.conductor.crew = repeated
    whole.conductor.repeat()
    assert repeated.published == crew.published[-1:]
    assert not repeated.begun


def test_jobs_that_a_loss_ends_do_not_move_as_others_end():
    """Gang scheduling would give the place of the first to the second, which is about to end as well."""
    jobs = [Job(number, 1, number * MS) for number in range(3)]
    crew = Crew()
    session = crew.watch(Session(policies.create("gang", {}), Machine(2), jobs))
    conductor = Conductor(session, jobs, crew)
    conductor.prepare()
    conductor.advance(5 * MS)
    for job in range(3):
        conductor.ready(job, 5 * MS)
    conductor.advance(500 * MS)
    assert crew.begun.keys() == {0, 1, 2} and crew.places[0] == crew.places[2]
    conductor.lose(crew.places[0], [0, 2])
    conductor.advance(600 * MS)
    assert crew.whys[-2:] == [Reason.ARRIVAL, Reason.NODE_LOST]
    assert not conductor.is_over(1) and conductor.is_over(2)


def beginning():
    launcher = Hydra("/bin/mpiexec", "5")
    contacts = Contacts(("tcp://127.0.0.1:1",), Keys("public", "secret"), ())
    return Beginning(workload("gang"), preflight.LaunchPlan("signals", "", launcher, {}), contacts, 5, 7)


def test_a_history_is_there_from_the_beginning_and_ends_with_its_last_whole_event(tmp_path):
    path = tmp_path / "history"
    written = Writer(path)
    events = [log.Launched(0, 11), log.Ready(0, 0)]
    for event in events:
        written.add(event)
    assert not path.exists()
    written.begin(beginning())
    events += [log.Switched((Switch(0, 1, 2, 3),)), log.Left(0, "why", {})]
    for event in events[2:]:
        written.add(event)
    assert run_log.beginning(path) == beginning()
    assert (path.stat().st_mode & 0o077) == 0
    assert run_log.events(path) == (events, path.stat().st_size)
    with path.open("ab") as file:
        file.write(b'{"version":2,"class":"Rea')
    found, size = run_log.events(path)
    assert found == events
    following = Writer(path)
    following.go_on(size)
    following.add(log.Ready(1, 9))
    assert run_log.events(path)[0] == [*events, log.Ready(1, 9)]
    following.end()
    assert not path.exists()


def test_without_room_there_is_no_history_and_nothing_fails(tmp_path):
    written = Writer(tmp_path / "history")
    written.begin(beginning())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "history").stat().st_size + 10, limits[1]))
    try:
        written.add(log.Ready(0, 0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "history").exists()
    nowhere = Writer(tmp_path / "nowhere" / "history")
    nowhere.begin(beginning())
    nowhere.add(log.Ready(0, 0))


@pytest.mark.slow
def test_a_program_is_watched_and_its_status_known_without_being_its_parent(tmp_path):
    marks = passed_on(RunDirectory(tmp_path / "run").marks)
    out, status = tmp_path / "out", tmp_path / "status"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    child = launch.start(["/bin/sh", "-c", f"read line < {gate}; exit 3"], marks, out, out, status)
    assert eventually(lambda: environment_of(child.pid))  # not yet at the very beginning of a program
    adopted = launch.Adopted(child.pid, "run", status)
    assert adopted.poll() is None and launch.Adopted(child.pid, "another", status).poll() is not None
    gate.write_text("go\n")
    assert (adopted.wait(), child.wait(), adopted.poll()) == (3, 3, 3)
    killed = launch.start(["sleep", "60"], marks, out, out)
    assert eventually(lambda: environment_of(killed.pid))
    adopted = launch.Adopted(killed.pid, "run", tmp_path / "none")
    adopted.kill()
    assert adopted.wait() == killed.wait() == -signal.SIGKILL
    assert launch.Adopted(killed.pid, "run").poll() == -signal.SIGKILL


def begun(hosts, **options):
    """A run of four jobs under way on two nodes."""
    options = {"phases": 9000, "lease_s": 20.0, **options}
    run = start(hosts, policy="gang", mechanism="signals", jobs=4, processes=1, **options)
    assert eventually(lambda: any(state(pid) == "T" for pid in hosts.nodes[1].processes()), 60)
    return run


def resume(hosts, path):
    """Have another driver take the run in a directory over."""
    script = (
        "import sys; from pathlib import Path; from coordinator.drive.takeover import resume_workload; "
        "print(resume_workload(Path(sys.argv[1])).failure)"
    )
    process = hosts.start([sys.executable, "-c", script, path])
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, out, err)


def directory_of(hosts):
    """The run directory on the head, as the head sees it."""
    files = [name for name in hosts.head.files() if name.endswith("/history")]
    return str(Path(files[0].partition("/root")[2]).parent)


def nothing_is_left(hosts):
    return bool(eventually(lambda: not hosts.processes() and not hosts.files()))


def test_a_run_goes_from_driver_to_driver_and_the_last_knows_how_its_programs_ended(hosts):
    """A program ends well if it is the first to write to the common folder, and the others with 3."""
    gate = hosts.root / "gate"
    script = f"until [ -e {gate} ]; do :; done; mkdir {gate}/first 2>/dev/null || exit 3"
    run = begun(hosts, command=["sh", "-c", script], arrival_s=0.3)
    second = follow(hosts, "second")
    refused = resume(hosts, directory_of(hosts))
    assert refused.returncode != 0 and "has a driver that is alive" in refused.stderr
    kill_driver(hosts)
    run.communicate(timeout=40)
    assert says(second, "taking over run")
    third = follow(hosts, "third")
    os.kill(part(hosts.head, "second"), signal.SIGKILL)
    second.communicate(timeout=40)
    gate.mkdir()
    told = json.loads(third.communicate(timeout=90)[0])
    assert sorted(told["jobs"], key=len)[0] == ""
    assert sum("exited with status 3" in failure for failure in told["jobs"]) == 3, told["jobs"]
    assert [place for (place,) in told["placements"]] == [0, 1, 0, 1]
    assert [start_ns >= job * 300 * MS for job, (start_ns, _) in enumerate(told["spans_ns"])] == [True] * 4
    assert nothing_is_left(hosts)


def test_a_driver_that_comes_after_the_lease_finds_nothing(hosts):
    run = begun(hosts, lease_s=1.0)
    path = directory_of(hosts)
    kill_driver(hosts)
    run.communicate(timeout=40)
    assert nothing_is_left(hosts)
    late = resume(hosts, path)
    assert late.returncode != 0 and "is over, or was released at the end of its lease" in late.stderr


def test_a_driver_that_finds_the_agents_gone_ends_the_run(hosts):
    """The guardian of the first driver is gone as well, so that the run's directory is still there."""
    run = begun(hosts, lease_s=1.0)
    path = directory_of(hosts)
    os.kill(part(hosts.head, "coordinator.host.guardian"), signal.SIGKILL)
    kill_driver(hosts)
    run.communicate(timeout=40)
    assert eventually(lambda: not any(node.processes() for node in hosts.nodes))
    late = resume(hosts, path)
    assert late.returncode == 0 and "the run cannot continue" in late.stdout, late.stderr
    assert nothing_is_left(hosts)


EXPERIMENT = """
name = "taken-over"
repeats = 1
lease_s = 8.0

[[jobs]]
count = 2
program = { processes = 2, granularity_us = 10000, phases = 100 }

[[schedulers]]
policy = "gang"
quantum_ms = 50
mechanism = "signals"
"""


def test_resume_takes_over_the_run_of_an_invocation_that_was_killed(hosts, tmp_path):
    file, results = tmp_path / "taken-over.toml", tmp_path / "results"
    file.write_text(EXPERIMENT)
    words = [sys.executable, "-c", UNCALIBRATED, "run", str(file), "--hosts", ",".join(hosts.hosts)]
    words += ["--no-simulate", "--json", "--results", str(results)]
    killed = hosts.start(words)
    assert eventually(lambda: any(state(pid) == "T" for pid in hosts.nodes[1].processes()), 120)
    refused = hosts.start([*words, "--resume"])
    assert "has a driver that is alive" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 2
    os.kill(part(hosts.head, str(file)), signal.SIGKILL)
    killed.communicate(timeout=40)
    out, err = hosts.start([*words, "--resume"]).communicate(timeout=240)
    (row,) = json.loads(out)["rows"]
    assert "took over the run in progress" in err
    assert row["measured"]["workload_slowdown"]["n"] == 1, err
    with Store(results, existing=True) as store:
        runs = store.runs(json.loads(out)["digest"])
    taken = [run for run in runs if run.kind == "policy"]
    assert len(taken) == 1 and not taken[0].failure and len(taken[0].jobs) == 2
    assert nothing_is_left(hosts)

"""Workstations whose owners come and go: the policies, the simulation job by job, the driver, real ranks."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_sets import conduct
from runs import eventually, running, workload
from sessions import session

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.migration import Migration
from coordinator.owners import Owner, changes
from coordinator.view import Job, Reason
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import rigid
from harness.spec import experiment
from workloads.execute import Checkpoint
from workloads.program import Draws, Program
from workloads.validation import InputError

S = 1_000_000_000


def test_jobs_beside_owners_leave_them_a_share_of_the_time():
    run = session("owner-share", [2, 1], 3, arrived=2, quantum_ms=100, power=0.3)
    assert len(run.plan.decision.slots) == 1
    ours, theirs = run.owner([0], 1.0).decide(S).decision.slots
    assert (ours.runs, ours.length_ns) == (((0,), (0,), (1,)), 30_000_000)
    assert (theirs.runs, theirs.length_ns) == (((), (), (1,)), 70_000_000), "on all workstations of the job"
    plan = run.owner([0], 0.9).decide(S + 50_000_000)
    assert plan.cycle.slot_at(S + 50_000_000) == (0, S + 100_000_000), "the round continues"
    assert plan.decision.running(0) == {1}


@st.composite
def days(draw):
    """A policy, its parameters, sizes of jobs, owners by a model, and checkpoints."""
    name = draw(st.sampled_from(["condor", "idle-partition", "owner-share"]))
    options = {"idle_s": draw(st.sampled_from([0.0, 3.0]))}
    if name == "condor":
        options |= {"grace_s": draw(st.sampled_from([0.0, 4.0])), "vacate": draw(st.booleans())}
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    owners = [Owner((p,), present_s=draw(st.integers(1, 9)), away_s=30.0) for p in range(4)]
    return name, options, sizes, owners, Migration(checkpoint_s=draw(st.sampled_from([0.0, 2.0])))


@settings(max_examples=40, deadline=None)
@given(days())
def test_every_job_ends_and_loses_no_more_than_its_progress_since_a_checkpoint(day):
    name, options, sizes, owners, migration = day
    count = len(sizes)
    jobs = rigid(np.arange(count) * 2 * S, np.array(sizes), np.full(count, 11 * S))
    plans = []
    outcome, _ = event_by_event.simulate(
        jobs,
        4,
        policies.create(name, options),
        owners=changes(owners, 1, 0),
        migration=migration,
        watch=lambda plan, at_ns: plans.append((plan, at_ns)),
    )
    assert outcome.finished.all()
    assert (outcome.response_s >= 11).all()
    if migration.checkpoint_s and outcome.relocations:
        assert outcome.relocations.lost_s < max(1, outcome.relocations.vacated) * migration.checkpoint_s
    for plan, _ in plans:
        served = {job for slot in range(len(plan.decision.slots)) for job in plan.decision.running(slot)}
        suspended = plan.decision.placements.keys() - served
        called = plan.timer_ns is not None
        assert not suspended or not options.get("vacate") or called, "it is vacated if nothing else happens"


def test_a_job_that_vacates_pays_for_its_checkpoint_and_loses_the_rest():
    jobs = rigid(np.array([0]), np.array([1]), np.array([100 * S]))
    owner = Owner((0,), loads=((35.0, 1.0), (35.5, 0.0)))
    policy = policies.create("condor", {"grace_s": 0.0})
    finish = {}
    for every_s in (0.0, 10.0):
        costs = Migration(size_mb=6.0, bandwidth_mb_s=2.0, fixed_ms=500.0, checkpoint_s=every_s)
        made, _ = event_by_event.simulate(jobs, 1, policy, owners=changes([owner], 1, 0), migration=costs)
        finish[every_s] = made.finish_ns[0] / S
    assert finish == {0.0: 35.5 + 100, 10.0: 35.5 + 3.5 + 70}


def test_a_job_that_moves_is_stopped_for_the_time_of_its_move():
    jobs = rigid(np.array([0]), np.array([2]), np.array([100 * S]))
    owner = Owner((0,), loads=((35.0, 1.0),))
    policy = policies.create("idle-partition", {})
    costs = Migration(size_mb=8.0, bandwidth_mb_s=2.0)
    made, _ = event_by_event.simulate(jobs, 3, policy, owners=changes([owner], 1, 0), migration=costs)
    assert made.finish_ns[0] == 104 * S
    assert made.places == {0: [(1, 2)]}


def test_owners_who_never_let_a_job_run_are_an_error(monkeypatch):
    monkeypatch.setattr(event_by_event, "PATIENCE", 100)
    jobs = rigid(np.array([0]), np.array([1]), np.array([100 * S]))
    owner = Owner((0,), loads=tuple((float(at), 1.0 + at % 2) for at in range(150)))
    with pytest.raises(InputError, match="must let jobs finish, and none did in 100 changes of owners"):
        event_by_event.simulate(jobs, 1, policies.create("owner-share", {}), owners=changes([owner], 1, 0))


def begun(policy, processes, loads, processors):
    """A conductor with a job that has begun, and its job set; the first processor has an owner."""
    owner = Owner((0,), loads=loads)
    conductor, job_set = conduct(policy, [Job(0, processes)], processors, owners=changes([owner], 1, 0))
    conductor.ready(0, 0)
    conductor.advance(0)
    job_set.orders.clear()
    return conductor, job_set


def test_the_driver_launches_a_vacated_job_again_when_it_has_a_workstation():
    condor = policies.create("condor", {"grace_s": 2})
    conductor, job_set = begun(condor, 1, ((1.0, 1.0), (9.0, 0.0)), processors=1)
    assert conductor.due_ns() == S
    conductor.advance(S)
    assert conductor.due_ns() == 3 * S and job_set.orders == []
    conductor.advance(3 * S)
    assert job_set.orders == [("vacate", 0)]
    conductor.advance(9 * S)
    conductor.ready(0, 9 * S + 1)
    assert job_set.orders[1:] == [("launch", 0, (0,)), ("begin", 0, 9 * S + 1, (0,))]
    assert job_set.reasons == [Reason.ARRIVAL, Reason.OWNER, Reason.TIMER, Reason.OWNER]


def test_the_driver_lets_a_process_continue_on_another_processor():
    conductor, job_set = begun(policies.create("idle-partition", {}), 2, ((1.0, 1.0),), processors=3)
    conductor.advance(S)
    assert job_set.orders == [("move", 0, (2, 1))]


def file(owners, policy="condor", **job):
    return {
        "processors": 2,
        "jobs": [{"program": {"processes": 1, "phases": 5, **job}}],
        "owners": owners,
        "schedulers": [{"policy": policy}],
    }


def test_owners_of_a_file(tmp_path, monkeypatch):
    (tmp_path / "load.txt").write_text("# seconds load\n1.5 0.8\n4 0\n")
    monkeypatch.chdir(tmp_path)
    tables = [
        {"present_s": 60, "away_s": 120, "load": 0.9},
        {"processors": [0, 1], "times_s": [[10, 20], [30, 35]]},
        {"processors": [1], "trace": str(tmp_path / "load.txt")},
    ]
    found = experiment.load(file(tables)).owners
    assert found == (
        Owner((), present_s=60.0, away_s=120.0, load=0.9),
        Owner((0, 1), loads=((10.0, 1.0), (20.0, 0.0), (30.0, 1.0), (35.0, 0.0))),
        Owner((1,), loads=((1.5, 0.8), (4.0, 0.0))),
    )


@pytest.mark.parametrize(
    "owners, words",
    [
        ([{"processors": [2], "times_s": [[1, 2]]}], "owners[0].processors"),
        ([{"times_s": [[2, 1]]}], "owners[0].times_s[0]"),
        ([{"times_s": [[0, 2], [1, 3]]}], "owners[0].times_s[1]"),
        ([{"present_s": 5}], "owners[0].away_s"),
        ([{"processors": [0]}], "owners[0].present_s"),
        ([{"present_s": 5, "away_s": 5, "trace": "x"}], "owners[0].trace"),
        ([{"trace": "no such file"}], "owners[0].trace"),
        ([{"trace": "/dev/zero"}], "owners[0].trace"),
        ([{"presents_s": 5}], "did you mean 'present_s'"),
        ({"present_s": 5}, "[[owners]]"),
    ],
)
def test_faults_of_owners_are_named(owners, words):
    with pytest.raises(InputError) as error:
        experiment.load(file(owners))
    assert words in str(error.value)


def test_owners_need_policies_that_heed_them():
    with pytest.raises(InputError, match="of whom only condor, idle-partition, owner-share take notice"):
        experiment.load(file([{"times_s": [[1, 2]]}], policy="gang"))


def test_owners_change_the_digest_and_an_experiment_without_them_keeps_its_own():
    plain = file([])
    digests = {experiment.load(one).digest for one in (plain, {**plain, "owners": [{"times_s": [[1, 2]]}]})}
    assert len(digests) == 2
    del plain["owners"]
    assert experiment.load(plain).digest in digests
    with_checkpoints = file([], checkpoint_phases=3)
    assert experiment.load(with_checkpoints).digest not in digests


def test_a_checkpoint_counts_the_phases_of_all_lives(tmp_path):
    place = tmp_path / "checkpoint-0"
    first = Checkpoint(place, 4, writes=True)
    assert [first.after_phase() for _ in range(11)] == [False] * 11
    second = Checkpoint(place, 4, writes=True)
    assert second.done == 8
    for _ in range(4):
        second.after_phase()
    assert Checkpoint(place, 4, writes=False).done == 12


def test_a_program_that_continues_computes_what_comes_then():
    program = Program(processes=2, granularity_us=100, imbalance=1.0, read_imbalance=1.0, phases=90)
    whole, rest = (Draws(program, 1, (1, 2, 3)) for _ in range(2))
    rest.skip(70)
    assert rest.compute_ns(20).tolist() == whole.compute_ns(90)[70:].tolist()
    assert rest.gap_ns(20).tolist() == whole.gap_ns(90)[70:].tolist()


def with_owner(name, away_s, phases, **options):
    """Jobs of one process of 1 ms a phase; the owner of the first processor comes after 0.3 s."""
    program = {"phases": phases, "checkpoint_phases": 10}
    made = workload(name, processes=1, granularity_us=1000, options=options, programs=[program])
    return replace(made, owners=(Owner((0,), loads=((0.3, 1.0), (away_s, 0.0))),))


@pytest.mark.slow
def test_a_real_job_vacates_and_continues_from_its_checkpoint():
    result = run_workload(with_owner("condor", 9.0, phases=800, grace_s=0.1), None)
    assert result.failure == ""
    (rank,) = result.ranks
    assert result.jobs[0].placement == (1,)
    assert 0 < rank.phases < 800, "not those before the checkpoint"
    assert rank.phases % 10 == 0
    assert rank.computing_ns >= rank.phases * 1e6


@pytest.mark.slow
def test_a_real_process_moves_to_an_idle_processor_and_is_stopped_without_one():
    moved = run_workload(with_owner("idle-partition", 9.0, phases=600), None)
    assert moved.failure == "" and moved.jobs[0].placement == (1,)
    assert moved.ranks[0].phases == 600
    made = with_owner("condor", 1.3, phases=600, vacate=False)
    waited = run_workload(replace(made, processors=made.processors[:1]), None)
    assert waited.failure == ""
    assert waited.jobs[0].finish_ns > 1.3e9


@pytest.mark.slow
@pytest.mark.parametrize("part, grace_s", [("driver", 0.0), ("agent", 60.0), ("guardian", 60.0)])
def test_whoever_is_killed_while_a_job_is_suspended_or_vacates_nothing_stays_stopped(part, grace_s):
    options = {"grace_s": grace_s}
    with running(policy="condor", jobs=1, phases=100_000, options=options, owners=[0.4, 0.4]) as run:
        assert eventually(lambda: run.part("rank"))
        assert eventually(run.holds if grace_s else lambda: not run.part("rank"))
        pid = run.part(part)
        os.kill(pid, signal.SIGKILL)
        run.driver.communicate(timeout=60)
        assert eventually(lambda: not run.remains()), run.remains()


@pytest.mark.slow
def test_real_gangs_move_to_processors_that_are_idle():
    options = {"quantum_ms": 10, "migrate": True}
    programs = [{"phases": phases} for phases in (30, 900, 30, 900)]
    made = workload("gang", processes=1, granularity_us=1000, options=options, programs=programs)
    result = run_workload(made, None)
    assert result.failure == ""
    places = [job.placement for job in result.jobs]
    assert {places[1], places[3]} == {(0,), (1,)}, "both had the second processor"

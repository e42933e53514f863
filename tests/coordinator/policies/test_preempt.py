"""Tiers of jobs: who suspends, requeues or shares with whom, and what that guarantees."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_sets import conduct
from runs import command, eventually, running, workload
from sessions import after, session, slots
from tiers import Submitted, finishes

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.policies.ordered import BACKFILLS, QUEUES
from coordinator.view import Job, Submitter
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import rigid
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from harness.spec import experiment
from workloads.program import Program
from workloads.validation import InputError

S = 1_000_000_000
TIERS = {"low": 1, "mid": 2, "high": 3}
OF = {"l": "low", "m": "mid", "h": "high"}


def in_partition(name):
    return Submitter(partition=name)


def jobs_of(text):
    """Jobs such as ``l3``: three processors in the partition low."""
    return [
        Job(number, int(word[1:]), submitter=in_partition(OF[word[0]]))
        for number, word in enumerate(text.split())
    ]


SCENES = [
    # options, jobs, events, slots on four processors, jobs that vacate
    ({}, "l3 l1 h2", "0 1 2@5", "2 2 - 1", ()),
    ({}, "l3 l1 h2", "0 1 2@5 ~2@9", "0 0 0 1", ()),
    ({}, "l1 l1 h3", "0 1 2@5", "2 2 2 -", ()),
    # A suspended job holds its processors against its own tier, and not against one between.
    ({}, "l4 h2 l2 m2", "0 1@1 2@2", "1 1 - -", ()),
    ({}, "l4 h2 l2 m2", "0 1@1 2@2 3@3", "1 1 3 3", ()),
    ({}, "m2 l2 h1", "0 1 2@1", "0 0 2 -", ()),
    # Jobs below the highest tier never take from it.
    ({}, "h3 l2", "0 1", "0 0 0 -", ()),
    ({"mode": "requeue"}, "l1 l1 h3", "0 1 2@5", "2 1 2 2", (0,)),
    ({"mode": "requeue"}, "l2 l1 l1 h1", "0 1 2 3@5", "3 - 1 2", (0,)),
    ({"mode": "requeue"}, "l1 l1 l2 h2", "0 1 2 3@5", "3 3 2 2", (0, 1)),
    ({"mode": "requeue"}, "l1 l3 h2", "0 1 2@5", "0 2 2 -", (1,)),
    ({"mode": "requeue"}, "l1 l3 h2", "0 1 2@5 ~2@7", "0 1 1 1", ()),
    ({"mode": "requeue"}, "m2 l2 h1", "0 1 2@1", "0 0 2 -", (1,)),
    ({"mode": "requeue"}, "l1 l2 l2 h2", "0 1 2 ~0@1 3@5", "2 3 3 2", (1,)),
    ({"mode": "requeue", "grace_s": 0.01}, "l4 h2 l2", "0 1@5 2@6", "0 0 0 0", ()),
    ({"mode": "requeue", "grace_s": 0.01}, "l4 h2 l2", "0 1@5 2@6 timer@15", "1 1 - -", (0,)),
    ({"grace_s": 0.01}, "l4 h2 l2", "0 1@5 timer@15", "1 1 - -", ()),
    ({"grace_s": 0.01}, "l4 h2", "0 1@5 ~0@8", "1 1 - -", ()),
    ({"grace_s": 0.01}, "l4 h2", "0 1@5 ~1@8", "0 0 0 0", ()),
    # Those of one tier share in turn; others fill what a turn leaves idle.
    ({"rows": 2}, "l4 l4 l4", "0 1@5 2@10", "0 0 0 0 | 1 1 1 1", ()),
    ({"rows": 2}, "l4 l2 h2", "0 1@5 2@10", "2 2 - -", ()),
    ({"rows": 2}, "l4 l2 h2", "0 1@5 2@10 ~2@110", "0 0 0 0 | 1 1 - -", ()),
    ({"rows": 2}, "l4 l4 l4", "0 1@5 2@10 ~0@300", "1 1 1 1 | 2 2 2 2", ()),
    ({"mode": "gang"}, "l4 h2", "0 1@5", "0 0 0 0 | 1 1 - -", ()),
    ({"mode": "gang"}, "l2 h2", "0 1@5", "0 0 1 1", ()),
    ({"mode": "gang"}, "h4 l2", "0 1@5", "0 0 0 0", ()),
    # A job that gives way already has no further grace.
    ({"mode": "gang", "grace_s": 0.01}, "l4 h2 h2", "0 1@5 2@8", "0 0 0 0", ()),
    ({"mode": "gang", "grace_s": 0.01}, "l4 h2 h2", "0 1@5 timer@15 2@18", "0 0 0 0 | 1 1 2 2", ()),
    ({"mode": "gang", "grace_s": 0.01}, "l4 h2 l1 h2", "0 1@5 timer@15 2@16 3@18", "0 0 0 0 | 1 1 3 3", ()),
]


@pytest.mark.parametrize(("options", "jobs", "events", "expected", "vacates"), SCENES, ids=str)
def test_scenes(options, jobs, events, expected, vacates):
    plan = after(session("preempt", jobs_of(jobs), 4, tiers=TIERS, **options), events)
    assert slots(plan) == expected
    assert plan.decision.vacates == vacates


SIZE = 6
JOBS = st.lists(
    st.tuples(st.sampled_from(sorted(TIERS)), st.integers(1, SIZE), st.integers(0, 5), st.integers(1, 9)),
    min_size=1,
    max_size=12,
)
"""Partitions, sizes, times between arrivals, and run times."""


def played(jobs, **options):
    """The outcome, and each decision with its time."""
    partitions, sizes, gaps, run_s = zip(*jobs, strict=True)
    columns = rigid(np.cumsum(gaps) * S, np.array(sizes), np.array(run_s) * S)
    policy = policies.create("preempt", {"tiers": TIERS, **options})
    decided = []
    outcome, usage = event_by_event.simulate(
        replace(columns, submitters=tuple(map(in_partition, partitions))),
        SIZE,
        policy,
        watch=lambda plan, at_ns: decided.append((at_ns, plan)),
    )
    return outcome, usage, decided


OPTIONS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["suspend", "requeue", "gang"]),
        "grace_s": st.sampled_from([0.0, 2.0]),
        "rows": st.integers(1, 3),
        "order": st.sampled_from(["fcfs", "sjf", "largest"]),
        "backfill": st.sampled_from(sorted(BACKFILLS)),
    }
)


@settings(max_examples=40, deadline=None)
@given(JOBS, OPTIONS)
def test_what_no_decision_may_break(jobs, options):
    outcome, _, decided = played(jobs, **options)
    tier = [TIERS[partition] for partition, *_ in jobs]
    for _, plan in decided:
        placed = plan.decision.placements
        for slot in plan.decision.slots:
            assert all(len(here) <= 1 for here in slot.runs), "one job at a time on a processor"
        for number, place in placed.items():
            sharing = [other for other, on in placed.items() if not {*on}.isdisjoint(place)]
            assert sum(tier[other] == tier[number] for other in sharing) <= options["rows"] * len(place)
            if options["mode"] == "requeue":
                assert {tier[other] for other in sharing} == {tier[number]}
            above = any(tier[other] > tier[number] for other in sharing)
            if options["mode"] != "gang" and not above and options["rows"] == 1:
                assert number in plan.decision.running(0), "only a higher tier suspends"
        if plan.decision.state.claims:
            assert plan.decision.timer_ns <= options["grace_s"] * S, "the policy is asked when a grace ends"
    assert outcome.finished.all()


@settings(max_examples=30, deadline=None)
@given(JOBS, st.sampled_from(["suspend", "requeue", "gang"]), st.sampled_from([0.0, 1.5]))
def test_a_higher_tier_waits_for_a_lower_one_no_longer_than_its_grace(jobs, mode, grace_s):
    """One job of the highest tier, which comes while others run, starts at its arrival plus the grace."""
    at_s = sum(gap for *_, gap, _ in jobs)
    others = [("low" if partition == "high" else partition, *rest) for partition, *rest in jobs]
    outcome, _, _ = played([*others, ("high", SIZE, 0, 3)], mode=mode, grace_s=grace_s)
    slot_s = 0.1 * 2 * len(jobs) if mode == "gang" else 0.0
    wait_s = outcome.start_ns[-1] / S - at_s
    assert wait_s <= grace_s + slot_s
    if mode != "gang":
        assert outcome.finish_ns[-1] - outcome.start_ns[-1] == 3 * S, "nothing stops it"


@settings(max_examples=30, deadline=None)
@given(JOBS, st.sampled_from(["suspend", "gang"]), st.integers(1, 3))
def test_work_is_conserved(jobs, mode, rows):
    """Jobs get the CPU time that they need, neither more nor less; what is requeued gets more."""
    need_s = sum(size * run_s for _, size, _, run_s in jobs)
    outcome, usage, _ = played(jobs, mode=mode, rows=rows)
    lengths_s = np.diff([*usage.time_ns, outcome.finish_ns.max()]) / S
    assert float((usage.busy * lengths_s).sum()) == pytest.approx(need_s)
    requeued, usage, _ = played(jobs, mode="requeue")
    lengths_s = np.diff([*usage.time_ns, requeued.finish_ns.max()]) / S
    lost_s = float((usage.busy * lengths_s).sum()) - need_s
    assert lost_s >= -1e-9
    assert (lost_s > 1e-9) <= (requeued.relocations.vacated > 0)


@settings(max_examples=30, deadline=None)
@given(JOBS, st.sampled_from(sorted(QUEUES)), st.sampled_from(sorted(BACKFILLS)))
def test_in_one_tier_it_is_the_policy_ordered(jobs, order, backfill):
    alike = [("low", *rest) for _, *rest in jobs]
    outcome, _, _ = played(alike, order=order, backfill=backfill)
    _, sizes, gaps, run_s = zip(*jobs, strict=True)
    columns = rigid(np.cumsum(gaps) * S, np.array(sizes), np.array(run_s) * S)
    ordered = policies.create("ordered", {"order": order, "backfill": backfill})
    expected, _ = event_by_event.simulate(columns, SIZE, ordered)
    assert outcome.start_ns.tolist() == expected.start_ns.tolist()


@settings(max_examples=60, deadline=None)
@given(JOBS, st.sampled_from(["suspend", "requeue"]), st.integers(0, 3))
def test_it_agrees_with_a_plain_reference(jobs, mode, grace_s):
    """``tests/support/tiers.py`` goes from second to second, and imports nothing of ours."""
    outcome, _, _ = played(jobs, mode=mode, grace_s=grace_s)
    arrivals_s = np.cumsum([gap for _, _, gap, _ in jobs])
    submitted = [
        Submitted(TIERS[partition], size, int(at_s), run_s)
        for (partition, size, _, run_s), at_s in zip(jobs, arrivals_s, strict=True)
    ]
    found = finishes(submitted, SIZE, mode, grace_s)
    assert (outcome.finish_ns // S).tolist() == found


def test_a_simulated_process_that_is_requeued_begins_again():
    """Job 0 runs for 3 ms, loses its processors for 5 ms, and that again, more often than there is room."""
    machine = SimulatedMachine(processors=2, context_switch_us=0, latency_us=0, local="round-robin")
    program = Program("BARRIER", 2, granularity_us=1000, imbalance=0, phases=10)
    short = replace(program, phases=5)
    for often in (1, 3):
        jobs = [SimulatedJob(0, program, submitter=in_partition("low"))]
        jobs += [
            SimulatedJob(n, short, 0.008 * n - 0.005, submitter=in_partition("high"))
            for n in range(1, often + 1)
        ]
        policy = policies.create("preempt", {"tiers": TIERS, "mode": "requeue"})
        outcome = simulate(jobs, machine, policy, timeline=True)
        assert outcome.failure == ""
        low, *high = outcome.jobs
        assert low.requeued == often and {job.requeued for job in high} == {0}
        begin_ns = 8e6 * often
        assert [low.start_ns, low.finish_ns] == pytest.approx([begin_ns, begin_ns + 10e6], rel=0.02)
        assert [process.phases for process in low.processes] == [10, 10]
        assert low.response_ns == low.finish_ns, "since its first arrival"
        computed_ns = outcome.spent_ns[:, 0].sum()
        assert computed_ns == pytest.approx(2e6 * (10 + 8 * often), rel=0.02), "lost work has been done"


def test_a_requeued_job_has_the_start_of_its_last_run_at_the_job_level_too():
    outcome, _, _ = played([("low", SIZE, 0, 10), ("high", 1, 3, 5), ("high", 1, 8, 5)], mode="requeue")
    assert (outcome.start_ns / S).tolist() == [16, 3, 11]
    assert (outcome.finish_ns / S).tolist() == [26, 8, 16]


def test_the_driver_ends_a_requeued_job_and_launches_it_again():
    policy = policies.create("preempt", {"tiers": TIERS, "mode": "requeue"})
    views = [Job(0, 2, submitter=in_partition("low")), Job(1, 1, 2 * S, submitter=in_partition("high"))]
    conductor, job_set = conduct(policy, views, 2)
    conductor.ready(0, 0)
    conductor.ready(1, 0)
    conductor.advance(0)
    job_set.orders.clear()
    conductor.advance(2 * S)
    assert job_set.orders == [("vacate", 0), ("begin", 1, 2 * S, (0,))]
    conductor.leave(1)
    conductor.advance(3 * S)
    conductor.ready(0, 3 * S + 5)
    assert job_set.orders[2:] == [("launch", 0, (0, 1)), ("begin", 0, 3 * S + 5, (0, 1))]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"tiers": 3}, "must be a table of numbers"),
        ({"tiers": {"debug": "high"}}, "schedulers[0].tiers.debug = 'high'"),
        ({"tiers": {"debug": -1}}, "from 0 to 65533"),
        ({"mode": "cancel"}, "must be one of suspend, requeue, gang"),
        ({"rows": 9}, "from 1 to 4"),
    ],
)
def test_faults_of_a_file_are_named(table, words):
    job = {"program": {"processes": 1, "phases": 5}, "partition": "debug"}
    file = {"processors": 2, "jobs": [job], "schedulers": [{"policy": "preempt", **table}]}
    with pytest.raises(InputError) as error:
        experiment.load(file)
    assert words in str(error.value)


def test_a_partition_changes_the_digest_and_an_experiment_without_one_keeps_its_own():
    def digest(**job):
        table = {"program": {"processes": 1, "phases": 5}, **job}
        return experiment.load({"processors": 2, "jobs": [table], "schedulers": [{"policy": "fcfs"}]}).digest

    assert digest() == digest(partition="") != digest(partition="debug")
    with pytest.raises(InputError, match="must be a name"):
        digest(partition=3)


def in_tiers(mode, **options):
    """A long job, and a short one of a higher tier that comes later."""
    programs = [{"phases": 400}, {"phases": 50}]
    made = workload(
        "preempt",
        processes=2,
        granularity_us=1000,
        options={"mode": mode, "tiers": TIERS, **options},
        programs=programs,
    )
    low, high = made.jobs
    return replace(
        made,
        jobs=(
            replace(low, submitter=in_partition("low")),
            replace(high, submitter=in_partition("high"), arrival_s=0.1),
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["suspend", "requeue", "gang"])
def test_real_jobs_of_two_tiers(mode):
    result = run_workload(in_tiers(mode), None)
    assert result.failure == ""
    low, high = result.jobs
    assert low.requeued == (mode == "requeue") and not high.requeued
    assert low.finish_ns > high.finish_ns > high.start_ns > 0.1e9
    assert (low.start_ns > high.finish_ns) == (mode == "requeue")
    assert all(rank.phases == (400, 50)[rank.job] for rank in result.ranks)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["driver", "agent", "guardian"])
@pytest.mark.parametrize("mode", ["suspend", "requeue"])
def test_whoever_is_killed_while_a_higher_tier_runs_nothing_stays(mode, part):
    options = {"mode": mode, "tiers": TIERS}
    with running(
        policy="preempt", jobs=2, phases=100_000, options=options, partitions=["low", "high"], arrival_s=0.4
    ) as run:
        seen = set()

        def a_rank_has_gone():
            lines = {pid: command(pid) for pid in run.processes()}
            # A launcher has the rank's words in its command line, and so have its children at first.
            ranks = {pid for pid, line in lines.items() if "workloads.rank" in line}
            here = {pid for pid in ranks if "python" in lines[pid][0]}
            seen.update(here)
            return seen - here

        assert eventually(run.holds if mode == "suspend" else a_rank_has_gone)
        os.kill(run.part(part), signal.SIGKILL)
        run.driver.communicate(timeout=60)
        assert eventually(lambda: not run.remains()), run.remains()

"""One script of events for the real machine and the simulator: both decide and carry out the same."""

from bisect import bisect_right
from dataclasses import replace

import numpy as np
import pytest
from both_sides import PROCESSORS, Real, Recorded, departures, heard, simulated
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator import policies
from coordinator.decide.session import Plan
from coordinator.migration import Migration
from coordinator.owners import Owner, changes
from coordinator.policies.regions import hypercube, mesh
from coordinator.view import After, ExecutionTime, Job, Reason, Submitter
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import Following, rigid
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import SWITCHING
from harness.simulator.processes.simulate import simulate
from workloads.patterns import partners
from workloads.program import Program

OURS = sorted(policies.known())
"""Policies that are carried out here, not by somebody else's controller."""


def nobody():
    return ()


def seen(job):
    """A job as the driver describes it to the policy."""
    size = job.program.processes
    known = partners(job.program.pattern, size)
    return Job(
        *(job.number, size, job.arrival_ns, job.moldable),
        estimate=job.estimate,
        partners=known,
        submitter=job.submitter,
        after=job.after,
    )


def check(name, jobs, owners=nobody, processors=PROCESSORS, **options):
    """Play ``jobs`` on both: the same decisions, and whoever runs in one is not held in the other.

    Returns the reasons for which the policy was asked.
    """
    quantum = {"quantum_ms": 5} if "quantum_ms" in policies.parameters(name) else {}
    policy = policies.create(name, quantum | options)
    observed = []
    with heard(observed):
        decided, outcome = simulated(policy, jobs, owners(), processors)
    real = Real(policy, [seen(job) for job in jobs], owners(), processors)
    real.play(departures(outcome), observed)
    assert real.decided == decided
    plans = [Plan(decision, at_ns - decision.elapsed_ns) for _, at_ns, decision in decided]
    order = sorted(jobs, key=lambda job: (job.arrival_s, job.number))
    ranks = [(job.number, rank) for job in order for rank in range(job.program.processes)]
    for processor in range(processors):
        rows = outcome.timeline[outcome.timeline[:, 1] == processor]
        for (from_ns, _, process, category, _), until_ns in zip(rows, rows[1:, 0], strict=False):
            if process >= 0 and category != SWITCHING and until_ns > from_ns:  # nobody abandons a switch
                at_ns = (from_ns + until_ns) // 2
                plan = plans[bisect_right([at_ns for _, at_ns, _ in decided], at_ns) - 1]
                slot = plan.decision.slots[plan.cycle.slot_at(at_ns)[0]]
                assert slot.allows(*ranks[process % len(ranks)], processor)
                for job, on in plan.decision.placements.items():
                    for rank in (rank for rank, place in enumerate(on) if place == processor):
                        assert real.holder.holds((job, rank), at_ns) != slot.allows(job, rank, processor)
    return {reason for reason, _, _ in decided}


def job(number, processes, arrival_ms, phases, **given):
    """A job of BARRIER, or of the ``pattern`` in ``given``, which has further fields of the job."""
    pattern = given.pop("pattern", "BARRIER")
    program = Program(pattern, processes, granularity_us=1000, imbalance=0.25, phases=phases)
    return SimulatedJob(number, program, arrival_ms / 1e3, **given)


def jobs(sizes, arrivals_ms, phases, **given):
    rows = zip(range(len(sizes)), sizes, arrivals_ms, phases, strict=True)
    return [job(*row, **given) for row in rows]


PLAIN = jobs((4, 2, 1, 4, 2, 2), (0, 0, 3.3, 7.1, 7.2, 31), (12, 30, 25, 9, 14, 5))
OF_SIXTEEN = jobs(
    (4, 3, 1, 6, 2, 8, 16, 5), (0, 0, 0.3, 1.1, 3.2, 4, 9, 21), (9, 5, 2, 4, 8, 5, 3, 4), pattern="NEWS"
)
"""For 16 processors: there most allocators differ, and so do both mappings of 16 ranks."""
MOLDABLE = [
    job(0, 4, 0, 9),
    job(1, 4, 1.1, 10, moldable=True, estimate=ExecutionTime(0.04)),
    job(2, 4, 1.2, 3, moldable=True, estimate=ExecutionTime(0.01)),
    job(3, 4, 1.3, 10, moldable=True, estimate=ExecutionTime(0.03, alpha_s=0.01)),
    job(4, 4, 1.4, 8, moldable=True, estimate=ExecutionTime(0.03, beta_s=0.002)),
    job(5, 4, 19.3, 6, moldable=True, estimate=ExecutionTime(0.02, alpha_s=0.002)),
]
"""Four jobs wait for a rigid one, and some of them start together; the last one comes later."""
IN_TIERS = [
    job(*numbers, submitter=Submitter(partition=partition))
    for *numbers, partition in (
        *((0, 3, 0, 30, "low"), (1, 1, 0, 40, "low"), (2, 2, 5.1, 10, "high"), (3, 4, 7.2, 6, "mid")),
        *((4, 2, 9.3, 8, "low"), (5, 1, 11.4, 12, "high"), (6, 3, 33.5, 9, "mid"), (7, 2, 61.7, 3, "high")),
    )
]
"""Jobs of three partitions."""
TIERS = {"low": 1, "mid": 2, "high": 3}
IN_CHAINS = [
    *(job(0, 4, 0, 9), job(1, 2, 2.1, 20), job(5, 1, 90.3, 4)),
    # At the end of job 0, 7 ms after that of job 1, at the end of both of these, but not before 70.4 ms.
    *(job(2, 3, 1.2, 8, after=After(0)), job(3, 2, 80.3, 6, after=After(1, 7_000_000))),
    *(
        job(4, 4, 70.4, 5, after=After(2)),
        job(6, 2, 1.3, 7, after=After(3, 0)),
        job(7, 1, 2, 5, after=After(0, 0)),
    ),
]
"""Jobs that follow others; their own times of arrival are too early, or too late."""
BY_ESTIMATES = ["average-parallelism", "knee", "square-root", "equal-time"]
BY_ESTIMATES += ["parallelism-range", "parallelism-variance"]

CASES = [
    *((PLAIN, name, {}) for name in OURS),
    (PLAIN, "gang", {"rows": 2, "packing": "continuous"}),
    (PLAIN, "gang", {"share": "sequential"}),
    (PLAIN, "gang", {"synchronised": False}),
    (PLAIN, "multilevel-two-queue", {"quanta_ms": [5], "share": "sequential"}),
    (PLAIN, "processor-sets", {"hold_ms": 5}),
    (OF_SIXTEEN, "hypercube", {"mapping": "bipartition"}),
    *((OF_SIXTEEN, "hypercube", {"allocator": name}) for name in hypercube.ALLOCATORS),
    (OF_SIXTEEN, "mesh", {"allocator": "paging", "page": 2}),
    *((OF_SIXTEEN, "mesh", {"allocator": name}) for name in mesh.ALLOCATORS),
    *((IN_TIERS, "preempt", {"tiers": TIERS, "mode": mode}) for mode in ("suspend", "requeue", "gang")),
    (IN_TIERS, "preempt", {"tiers": TIERS, "mode": "requeue", "grace_s": 0.004, "backfill": "easy"}),
    (IN_TIERS, "preempt", {"tiers": TIERS, "rows": 3, "grace_s": 0.003}),
    *((IN_CHAINS, name, {}) for name in ("none", "gang", "fcfs", "easy", "implicit", "batch")),
    (IN_CHAINS, "ordered", {"order": "sjf", "backfill": "conservative"}),
    *((MOLDABLE, name, {"order": order}) for name in BY_ESTIMATES for order in (0, 2)),
]


@pytest.mark.parametrize(
    ("given", "name", "options"), CASES, ids=lambda value: "" if isinstance(value, list) else str(value)
)
def test_the_driver_decides_as_the_simulator_does(given, name, options):
    check(name, given, processors=16 if given is OF_SIXTEEN else PROCESSORS, **options)


def test_both_learn_which_processes_communicate():
    """Jobs 0 and 3 communicate often; job 1 seldom, and job 2 has one process."""
    fine = [
        Program("NEWS", 4, granularity_us=200, phases=80),
        Program("BARRIER", 3, granularity_us=300, phases=90),
    ]
    seldom = Program("BARRIER", 3, granularity_us=9000, imbalance=0.5, phases=4)
    programs = [fine[0], seldom, Program("BARRIER", 1, granularity_us=500, phases=30), fine[1]]
    jobs = [SimulatedJob(n, program, 0.0023 * n) for n, program in enumerate(programs)]
    options = {"observe_ms": 1, "messages_per_ms": 0.5}
    assert check("working-sets", jobs, **options) >= {Reason.OBSERVATION, Reason.ARRIVAL, Reason.DEPARTURE}


COME_AND_GO = (
    Owner((0,), loads=((0.0051, 0.8), (0.0143, 0.0), (0.0602, 0.4), (0.0671, 0.0))),
    Owner((2, 3), loads=((0.0111, 1.0), (0.0412, 0.0))),
)
STATIONS = [
    ("condor", {"vacate": False, "idle_s": 0.004}),
    ("condor", {"vacate": False, "stop_load": 0.5}),
    ("owner-share", {"quantum_ms": 4, "idle_s": 0.003, "power": 0.3}),
]


@pytest.mark.parametrize(("name", "options"), STATIONS, ids=str)
def test_both_learn_of_owners_and_call_the_policy_when_it_asks(name, options):
    jobs = [job(*numbers) for numbers in ((0, 2, 0, 30), (1, 2, 2.2, 25), (2, 1, 3.3, 25), (3, 2, 20.1, 9))]
    reasons = check(name, jobs, lambda: changes(COME_AND_GO, 1, 0), **options)
    assert reasons >= ({Reason.OWNER, Reason.TIMER} if "idle_s" in options else {Reason.OWNER})


def check_by_job(name, sizes, submit_ns, run_ns, owners=(), **options):
    """The simulator of jobs and the driver decide alike; returns why they decided, and the relocations."""
    decided = []
    recorded = Recorded(policies.create(name, options), decided)
    outcome, _ = event_by_event.simulate(
        rigid(submit_ns, sizes, run_ns),
        PROCESSORS,
        recorded,
        owners=changes(owners, 7, 0),
        migration=Migration(size_mb=0.1),
    )
    seen = [Job(number, *map(int, row)) for number, row in enumerate(zip(sizes, submit_ns, strict=True))]
    real = Real(recorded.policy, seen, changes(owners, 7, 0))
    real.play(sorted((int(at_ns), number) for number, at_ns in enumerate(outcome.finish_ns)))
    assert real.decided == decided
    return {reason for reason, _, _ in decided}, outcome.relocations


@pytest.mark.parametrize(
    ("name", "options"), [("condor", {"grace_s": 2.0}), ("idle-partition", {"idle_s": 1.0})]
)
def test_jobs_that_relocate_do_so_in_both(name, options):
    """Owners come and go by a model."""
    owners = [Owner((p,), present_s=5.0, away_s=9.0) for p in range(PROCESSORS)]
    submit_ns, run_ns = np.arange(9) * 3_000_000_007, np.arange(9, 0, -1) * 1_500_000_000
    sizes = np.array([1, 2, 1, 3, 1, 2, 4, 1, 2])
    reasons, relocations = check_by_job(name, sizes, submit_ns, run_ns, owners, **options)
    assert reasons >= {Reason.OWNER, Reason.TIMER}
    assert relocations.vacated + relocations.moves > 3


@pytest.mark.parametrize("name", ["fcfs", "easy", "gang"])
def test_jobs_that_follow_others_arrive_after_them_in_both(name):
    """The same jobs as above, without processes."""
    order = sorted(IN_CHAINS, key=lambda job: job.arrival_ns)
    places = {job.number: place for place, job in enumerate(order)}
    after = [job.after and After(places[job.after.job], job.after.think_ns) for job in order]
    pairs = [(one.job, one.think_ns) if one else (-1, -1) for one in after]
    numbers = [(job.program.processes, job.arrival_ns, job.program.phases * 1_000_003) for job in order]
    sizes, submit_ns, run_ns = np.array(numbers).T
    jobs = replace(rigid(submit_ns, sizes, run_ns), following=Following(*np.array(pairs).T))
    decided = []
    recorded = Recorded(policies.create(name, {}), decided)
    outcome, _ = event_by_event.simulate(jobs, PROCESSORS, recorded)
    real = Real(recorded.policy, jobs.views())
    real.play(sorted((int(at_ns), number) for number, at_ns in enumerate(outcome.finish_ns)))
    assert real.decided == decided
    arrivals, ends = outcome.jobs.submit_ns, outcome.finish_ns
    for number, one in enumerate(after):
        if one is None:
            assert arrivals[number] == submit_ns[number]
        elif one.think_ns < 0:
            assert arrivals[number] == max(submit_ns[number], ends[one.job])
        else:
            assert arrivals[number] == ends[one.job] + one.think_ns


@pytest.mark.parametrize("packing", ["matrix", "buddy"])
def test_gangs_move_in_both(packing):
    """Short jobs leave rows that others can then empty."""
    sizes = np.array([1, 1, 2, 1, 1, 3, 1, 2])
    submit_ns, run_ns = np.arange(8) * 200_000_003, np.array([1, 9, 2, 8, 1, 3, 7, 4]) * 1_000_000_000
    _, relocations = check_by_job("gang", sizes, submit_ns, run_ns, migrate=True, packing=packing)
    assert relocations.moves > 0


def test_both_divide_the_processors_again_when_a_program_says_that_it_can_use_others():
    profiles = (((5, 1), (20, 4)), ((12, 3), (4, 1)), ((9, 2), (9, 4)))
    jobs = [
        SimulatedJob(
            n,
            Program("TASKS", 4, granularity_us=1000, imbalance=1, phases=60, parallelism=profile),
            at_ms / 1e3,
        )
        for n, (profile, at_ms) in enumerate(zip(profiles, (0, 3.3, 7.1), strict=True))
    ]
    decided = []
    recorded = Recorded(policies.create("dynamic", {}), decided)
    machine = SimulatedMachine(processors=PROCESSORS, context_switch_us=1, latency_us=1, local="round-robin")
    outcome = simulate(jobs, machine, recorded)
    assert outcome.failure == ""
    assert {number for _, _, (number, _) in recorded.changes} == {0, 1, 2}
    real = Real(recorded.policy, [Job(n, 4, of.arrival_ns, malleable=True) for n, of in enumerate(jobs)])
    real.play(departures(outcome), recorded.changes)
    assert real.decided == decided
    assert real.told


@pytest.mark.parametrize("name", ["process-control", "dyn-equi"])
def test_jobs_hear_from_the_driver_what_they_get_in_the_simulator(name):
    """Jobs with a queue of tasks, which come and leave while others run, beside one that cannot suspend."""
    numbers = ((0, 4, 0.0, 60), (1, 8 if name == "process-control" else 3, 3.3, 25), (2, 2, 7.1, 9))
    queues = [
        SimulatedJob(n, Program("TASKS", size, granularity_us=1000, imbalance=1, phases=tasks), at / 1e3)
        for n, size, at, tasks in numbers
    ]
    jobs = [*queues, job(3, 1, 9.2, 6)]
    policy = policies.create(name, {})
    decided, outcome = simulated(policy, jobs)
    seen = [Job(j.number, j.program.processes, j.arrival_ns, malleable=j.number < 3) for j in jobs]
    real = Real(policy, seen)
    real.play(departures(outcome))
    assert real.decided == decided
    places = {}
    changes = []
    for _, at_ns, decision in decided:
        for number, place in decision.placements.items():
            if places.setdefault(number, place) != place:
                changes.append((at_ns, number, place))
        places |= decision.placements
    assert real.told == changes
    assert {number for _, number, _ in changes} >= {0, 1}
    for of, taken in zip(outcome.jobs[:3], numbers, strict=True):
        assert sum(process.phases for process in of.processes) == taken[3], "every task once"


@st.composite
def workloads(draw):
    """Up to six jobs. No two things happen at the same nanosecond but arrivals."""
    each = st.tuples(st.integers(1, PROCESSORS), st.integers(0, 40), st.integers(1, 30))
    numbers = draw(st.lists(each, min_size=1, max_size=6))
    return [job(number, size, at + 0.137, phases) for number, (size, at, phases) in enumerate(numbers)]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.sampled_from(OURS), workloads())
def test_it_does_so_for_any_jobs(name, jobs):
    check(name, jobs)

"""Evolving programs, and a policy that divides the processors again when their parallelism changes."""

from dataclasses import replace

import pytest
from job_sets import conduct
from runs import workload
from sessions import MS, after, session

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.drive.driver import run_workload
from coordinator.view import Job, Machine, Reason
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.program import Program
from workloads.validation import InputError

ABLE = [Job(number, 4, malleable=True) for number in range(2)]


@pytest.mark.parametrize("name", ["dyn-equi", "process-control", "none", "gang", "fcfs"])
def test_other_policies_are_not_asked(name):
    run = session(name, ABLE, 4, arrived=1)
    plan = run.plan
    assert run.evolve(0, 1).observe(0, 0, (1,)).reason is None
    assert run.plan is plan


@pytest.mark.parametrize(
    "name, options, sizes, events, service_ms",
    [
        ("none", {}, (2, 1), "0 1@10 0:1@30", [{0: 0}, {0: 20, 1: 0}, {0: 50, 1: 10}]),
        (
            *("gang", {"quantum_ms": 10}, (2, 2, 1), "0 1 2@35 ~1@36"),
            [{0: 0}, {0: 0, 1: 0}, {0: 40, 1: 30, 2: 0}, {0: 40, 2: 0}],
        ),
    ],
)
def test_service_follows_slots_and_equal_parts_of_them(name, options, sizes, events, service_ms):
    seen = []

    class Watching(type(policies.create(name, {}))):
        reacts_to_phases = uses_attained_service = True

        def decide(self, view, reason):
            seen.append({job: attained_ns / MS for job, attained_ns in view.attained_ns.items()})
            return super().decide(view, reason)

    after(Session(Watching(**options), Machine(2), [*map(Job, range(len(sizes)), sizes)]), events)
    assert seen == service_ms


@pytest.mark.parametrize("read", [dict, bool, list, lambda found: found.get(0)])
def test_a_policy_that_reads_service_without_weighing_it_is_told(read):
    class Forgetful(type(policies.create("none", {}))):
        def decide(self, view, reason):
            read(view.attained_ns)
            return super().decide(view, reason)

    run = Session(Forgetful(), Machine(2), [Job(0, 2)])
    with pytest.raises(
        InputError, match=r"'Forgetful': reads View.attained_ns.*uses_attained_service = True"
    ):
        run.arrive(0).decide(0)


def test_a_program_is_not_believed_more_than_it_can_know():
    """What comes before its start is ignored; numbers are cut to what it has; repetition decides nothing."""
    conductor, job_set = conduct(policies.create("dynamic", {}), [Job(0, 4, malleable=True)], 4)
    conductor.evolve(0, 1)
    conductor.ready(0, 0)
    conductor.advance(1)
    for at_ns, processes in enumerate((-5, 1, 1 << 62, 4, 2), 2):
        conductor.evolve(0, processes)
        conductor.advance(at_ns)
    conductor.leave(0)
    conductor.evolve(0, 1)
    conductor.advance(10)
    orders = [(job, len(place)) for order, job, place in (o for o in job_set.orders if o[0] == "resize")]
    assert orders == [(0, 1), (0, 4), (0, 2)]
    assert job_set.reasons == [Reason.ARRIVAL, Reason.PHASE, Reason.PHASE, Reason.PHASE, Reason.DEPARTURE]


@pytest.mark.parametrize(
    "given, rule",
    [
        ("serial", "a list of pairs"),
        ([[1, 2, 3]], "a list of pairs"),
        ([[0, 1]], "parallelism[0][0]"),
        ([[5, 1], [5, 3]], "parallelism[1][1]"),
        ([[5, 0]], "parallelism[0][1]"),
    ],
)
def test_a_profile_is_pairs_of_tasks_and_processes(given, rule):
    with pytest.raises(InputError) as error:
        Program("TASKS", 2, phases=10, parallelism=given)
    assert rule in str(error.value)


def test_only_a_queue_of_tasks_has_a_profile():
    with pytest.raises(InputError, match="queue of tasks"):
        Program("BARRIER", 2, phases=10, parallelism=[[5, 1]])


def test_a_profile_repeats():
    program = Program("TASKS", 4, granularity_us=100, dedicated_s=0.1, parallelism=[[2, 1], [4, 3]])
    assert [program.usable(task) for task in range(8)] == [1, 1, 3, 3, 3, 3, 1, 1]
    assert program.phase_us() == pytest.approx(100 * (2 + 4 / 3) / 6)
    assert program.on(2).parallelism == ((2, 1), (4, 2))
    assert hash(program) == hash(replace(program))


def simulated(policy):
    jobs = [
        SimulatedJob(
            number,
            Program("TASKS", 4, 1000, imbalance=1, phases=300, parallelism=[[40, 1], [60, 4]]),
            arrival_s=0.03 * number,
        )
        for number in range(2)
    ]
    machine = SimulatedMachine(processors=4, context_switch_us=20, latency_us=2, local="eevdf")
    return simulate(jobs, machine, policies.create(policy, {}))


def test_two_programs_out_of_step_end_sooner_if_processors_follow_their_parallelism():
    dynamic = simulated("dynamic")
    semi_static = simulated("dyn-equi")
    assert dynamic.failure == semi_static.failure == ""
    ends = [sum(job.finish_ns for job in outcome.jobs) for outcome in (dynamic, semi_static)]
    assert ends[0] < 0.95 * ends[1]
    for outcome in (dynamic, semi_static):
        for job in outcome.jobs:
            assert sum(process.phases for process in job.processes) == 300
            assert job.processes[0].phases >= 3 * 40, "process 0 has the tasks that one can take"


@pytest.mark.slow
def test_a_real_program_tells_its_driver_which_reallocates():
    """Job 0 has one task after another from its 21st on: job 1, which comes meanwhile, has a core at once."""
    tasks = {"pattern": "TASKS", "granularity_us": 1000, "imbalance": 0}
    programs = [tasks | {"phases": 200, "parallelism": [[20, 2], [180, 1]]}, tasks | {"phases": 50}]
    result = run_workload(workload("dynamic", arrival_s=0.02, timeout_s=120.0, programs=programs), None)
    assert result.failure == ""
    taken = {(rank.job, rank.rank): rank.phases for rank in result.ranks}
    assert taken[0, 0] + taken[0, 1] == 200
    assert taken[0, 1] <= 20
    (sizes_of_rank,) = (rank.sizes for rank in result.ranks if (rank.job, rank.rank) == (0, 0))
    assert sizes_of_rank[-1][1] == 1
    assert sum(tasks for tasks, _ in sizes_of_rank) == 200

"""Processes that are seen to communicate get slots together; all others share what is left."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_sets import conduct
from runs import workload
from sessions import MS, session

from coordinator import policies
from coordinator.decide.session import connected
from coordinator.drive.driver import run_workload
from coordinator.policies.sharing import folded
from coordinator.view import Job, Reason, Slot
from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import FROM_RANK, RankTraffic
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads import coscheduling
from workloads.coscheduling import Correspondents, Observer
from workloads.program import Program
from workloads.validation import InputError

Q = 10 * MS


def communicating(sizes=(2, 2, 2), processors=2):
    """A session of jobs of these numbers of processes, which have all come."""
    return session("working-sets", sizes, processors, arrived=len(sizes), quantum_ms=10)


# What a process sees.


def test_often_is_more_than_so_many_messages_per_processor_time_and_half_is_enough_to_stay():
    partners = Correspondents(messages_per_ms=2.0)
    assert not partners.look([50, 0, 0], 5 * MS), "the first look only begins"
    assert partners.look([50, 21, 20], 15 * MS)
    assert partners.ranks == (1,)
    assert not partners.look([50, 32, 40], 25 * MS), "11 of 20 stay often; 20 of 20 are not yet"
    assert partners.look([71, 42, 61], 35 * MS)
    assert partners.ranks == (0, 2)


def test_a_rank_looks_when_it_is_time_and_tells_what_is_new(monkeypatch):
    peers = []
    asked = []
    now = [0]
    monkeypatch.setattr(coscheduling, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(coscheduling, "thread_time_ns", lambda: now[0])
    ours = Observer(peers.append, observe_ms=10, messages_per_ms=1)
    got = {0: [0, 0], 5: None, 10: [0, 11], 20: [0, 22], 30: [0, 22]}
    for at_ms, counts in got.items():
        now[0] = at_ms * MS
        ours.phase_over(lambda counts=counts: asked.append(counts) or counts)
    assert None not in asked
    assert peers == [(1,), ()]


@pytest.mark.parametrize(
    "program, rows",
    [
        (Program("BARRIER", 3, phases=1), [[0, 1, 1], [1, 0, 0], [1, 0, 0]]),
        (Program("TRANSPOSE", 3, phases=1), [[0, 4, 4], [4, 0, 2], [4, 2, 0]]),
        (Program("TRANSPOSE", 2, phases=1, read="rma", opening_barrier=False), [[0, 1], [1, 0]]),
        (Program("NEWS", 2, phases=1), [[0, 6], [6, 0]]),
        (Program("TASKS", 2, phases=1), [[0, 0], [0, 0]]),
        (Program("BARRIER", 1, phases=1), [[0]]),
    ],
    ids=lambda value: value.pattern if isinstance(value, Program) else "",
)
def test_a_simulated_process_gets_the_messages_of_its_program(program, rows):
    """NEWS of two: two of the four neighbours are the other one, which asks as often."""
    assert [program.messages_to(rank).tolist() for rank in range(program.processes)] == rows


@pytest.mark.parametrize("peers", [[2, 1], [1, 1], [-1], [1 << 24], ["1"], 3, None])
def test_no_rank_may_name_impossible_ranks(peers):
    line = FROM_RANK.encode(RankTraffic((0, 3)))
    assert FROM_RANK.decode(line) == RankTraffic((0, 3))
    with pytest.raises(LineError):
        FROM_RANK.decode(FROM_RANK.encode(RankTraffic(peers)))


# What the coordinator makes of it.


def test_the_working_sets_are_what_is_connected():
    assert connected({0: (), 1: (0,), 5: (3,), 3: (4,), 2: ()}) == ((0, 1), (3, 4, 5))
    assert connected({0: (1,), 2: (3,), 1: (2,)}) == ((0, 1, 2, 3),)
    assert connected({}) == ()


def test_the_policy_is_asked_only_if_a_set_changes():
    run = communicating((4,), 4)
    assert run.observe(0, 1, ()).reason is None
    assert run.observe(0, 1, (0,)).reason is Reason.OBSERVATION
    run.decide(2)
    assert run.observe(0, 0, (1,)).reason is None, "they are a set already"
    assert run.observe(0, 1, ()).reason is None, "rank 0 still says so"
    assert run.observe(0, 0, ()).reason is Reason.OBSERVATION


def test_a_rank_is_not_believed_more_than_it_can_know():
    conductor, job_set = conduct(policies.create("working-sets", {}), [Job(0, 2), Job(1, 2)])
    conductor.observe(0, 0, (1,))
    for job in range(2):
        conductor.ready(job, 1)
    conductor.advance(2)
    for rank in (7, -1):
        conductor.observe(0, rank, (0,))
    conductor.advance(3)
    conductor.observe(0, 1, (-1, 2, 1 << 62))
    conductor.advance(4)
    conductor.observe(0, 1, (0, 9))
    conductor.advance(5)
    conductor.observe(0, 0, (1,))
    conductor.advance(6)
    conductor.leave(0)
    conductor.observe(0, 0, ())
    conductor.advance(8)
    assert [at_ns for reason, at_ns, _ in job_set.decided if reason is Reason.OBSERVATION] == [5]


# What the policy decides.


def test_a_set_has_slots_in_turn_with_the_others():
    run = communicating()
    assert run.plan.decision.slots == (Slot(((0, 1, 2), (0, 1, 2))),)
    run.observe(0, 0, (1,)).decide(3 * MS)
    whole = ((1, 2), (1, 2)), ((0,), (0,))
    assert [(slot.runs, slot.length_ns) for slot in run.plan.decision.slots] == list(
        zip(whole, (2 * Q, Q), strict=True)
    )
    assert run.plan.decision.elapsed_ns == 3 * MS, "the slot of all goes on"
    run.observe(2, 1, (0,)).decide(25 * MS)
    slots = run.plan.decision.slots
    assert [slot.runs[0] for slot in slots] == [(0,), (1,), (2,)], "the new set comes last"
    assert {slot.length_ns for slot in slots} == {Q}
    assert run.plan.decision.elapsed_ns == 5 * MS
    run.depart(1).decide(26 * MS)
    assert [slot.runs[0] for slot in run.plan.decision.slots] == [(0,), (2,)]
    run.depart(0).decide(27 * MS)
    assert run.plan.decision.slots == (Slot(((2,), (2,))),)


def test_a_slot_that_is_over_by_the_new_table_does_not_go_on():
    run = communicating((2, 2))
    run.observe(0, 0, (1,)).decide(200 * MS)
    assert [slot.runs[0] for slot in run.plan.decision.slots] == [(0,), (1,)]
    assert run.plan.decision.elapsed_ns == 0


def test_sets_without_a_common_processor_share_a_slot_and_others_have_what_is_idle():
    run = communicating((4, 4, 1), 4)
    run.observe(0, 0, (1,)).decide(1)
    run.observe(0, 2, (3,)).decide(2)
    others, pairs = run.plan.decision.slots
    assert pairs == Slot(((0,), (0,), (0,), (0,)), Q)
    assert others == Slot(((1, 2), (1,), (1,), (1,)), 2 * Q)
    run.observe(0, 2, ()).decide(3)
    others, pair = run.plan.decision.slots
    assert pair == Slot(((0,), (0,), (0, 1), (0, 1)), Q, ((1, 2), (1, 3)))
    assert others == Slot(((1, 2), (1,), (0, 1), (0, 1)), 2 * Q, ((0, 2), (0, 3)))


def test_a_set_shares_the_slot_of_the_others_if_they_leave_it_processors():
    run = communicating((4, 2), 4)
    run.observe(0, 2, (3,)).decide(1)
    (slot,) = run.plan.decision.slots
    assert slot == Slot(((0, 1), (0, 1), (0,), (0,)))


def test_processes_that_communicate_on_one_processor_need_no_slot():
    run = communicating((4, 4), 2)
    before = run.plan.decision.slots
    run.observe(0, 0, (2,)).decide(1)
    assert run.plan.decision.slots == before
    run.observe(0, 1, (2,)).decide(2)
    (first, last) = run.plan.decision.slots
    assert last == Slot(((0,), (0,)), Q, ((0, 0), (0, 1), (0, 2)))
    assert first == Slot(((1,), (0, 1)), 3 * Q, ((0, 3),))


@st.composite
def courses(draw):
    """Jobs on some processors, and what their ranks say."""
    processors = draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(1, processors + 2), min_size=1, max_size=5))
    ranks = st.integers(0, processors + 1)
    says = st.tuples(st.integers(0, 4), ranks, st.frozensets(ranks, max_size=3), st.integers(0, 40))
    return processors, sizes, draw(st.lists(says, max_size=25))


@given(courses())
def test_whoever_communicates_runs_together_undisturbed_and_everybody_runs(course):
    processors, sizes, words = course
    run = communicating(sizes, processors)
    now_ns = 0
    sets = {}
    for job, rank, peers, wait_ms in words:
        now_ns += wait_ms * MS
        if job < len(sizes) and rank < sizes[job]:
            sets.setdefault(job, {})[rank] = [peer for peer in peers if peer < sizes[job]]
            if run.observe(job, rank, sets[job][rank]).reason is not None:
                run.decide(now_ns)
    places = {job: folded(size, range(processors)) for job, size in enumerate(sizes)}
    decision = run.plan.decision
    assert decision.placements == places
    allowed = [
        {
            (job, rank)
            for job, place in places.items()
            for rank, p in enumerate(place)
            if slot.allows(job, rank, p)
        }
        for slot in decision.slots
    ]
    assert set.union(*allowed) == {(job, rank) for job, size in enumerate(sizes) for rank in range(size)}
    for job, heard in sets.items():
        for ranks in connected(heard):
            members = {(job, rank) for rank in ranks}
            used = {places[job][rank] for rank in ranks}
            if len(used) > 1:
                (together,) = [able for able in allowed if members & able]
                assert {(n, r) for n, r in together if places[n][r] in used} == members


def test_nobody_loses_a_turn_to_jobs_that_come_and_go():
    sizes = (2, 2, 2, *([1] * 400))
    run = session("working-sets", sizes, arrived=3, quantum_ms=10)
    for number in range(3):
        run.observe(number, 1, (0,)).decide(0)
    served = dict.fromkeys(range(3), 0)
    times = [3 * MS * (event + 1) for event in range(800)]
    for event, (now_ns, next_ns) in enumerate(pairwise(times)):
        number = 3 + event // 2
        plan = run.depart(number).decide(now_ns) if event % 2 else run.arrive(number).decide(now_ns)
        at_ns = now_ns
        while at_ns < next_ns:
            index, end_ns = plan.cycle.slot_at(at_ns)
            until_ns = min(end_ns, next_ns)
            for job in plan.decision.running(index) & served.keys():
                served[job] += until_ns - at_ns
            at_ns = until_ns
    assert max(served.values()) - min(served.values()) <= 2 * Q


# What it is good for.


MACHINE = SimulatedMachine(processors=2, context_switch_us=5, latency_us=2, local="eevdf")


def simulated(policy, **how):
    """Two fine-grained jobs of 0.2 s each and a coarse one; the times at which they end, in seconds."""
    fine = Program("BARRIER", 2, granularity_us=200, imbalance=0.25, phases=1000)
    coarse = Program("BARRIER", 2, granularity_us=20_000, imbalance=1, phases=10)
    jobs = [SimulatedJob(number, program) for number, program in enumerate((fine, fine, coarse))]
    outcome = simulate(jobs, MACHINE, policies.create(policy, how))
    assert outcome.failure == ""
    return [job.finish_ns / 1e9 for job in outcome.jobs]


def test_simulated_jobs_that_communicate_often_get_slots():
    with_sets = simulated("working-sets", quantum_ms=10, observe_ms=10)
    gangs = simulated("gang", quantum_ms=10)
    nothing = simulated("none")
    assert max(with_sets) < 1.1 * max(gangs)
    assert max(nothing) > 1.5 * max(with_sets)
    too_few = simulated("working-sets", quantum_ms=10, messages_per_ms=1e6)
    assert too_few == nothing, "who observes nothing changes nothing"


def test_the_simulator_refuses_processes_without_turns():
    fifo = replace(MACHINE, local="fifo")
    job = SimulatedJob(0, Program("BARRIER", 2, phases=5))
    with pytest.raises(InputError, match="get time slices"):
        simulate([job], fifo, policies.create("working-sets", {}))


@pytest.mark.slow
@pytest.mark.parametrize("granularities_us", [(200, 200, 20_000), (20_000, 20_000)], ids=str)
def test_real_jobs_that_communicate_often_get_slots(granularities_us):
    """Slots change only where there are working sets."""
    options = {"quantum_ms": 20, "observe_ms": 20}
    programs = [{"granularity_us": us, "phases": 250_000 // us} for us in granularities_us]
    result = run_workload(workload("working-sets", options=options, programs=programs), None)
    assert result.failure == ""
    assert len(result.ranks) == 2 * len(programs)
    assert (len(result.switches) > 20) == (min(granularities_us) == 200)

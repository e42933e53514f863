"""Policies without processes: what they decide, and what none of them may ever do."""

import json
import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.view import Decision, Job, Machine, Reason, Slot, View
from workloads.validation import InputError

MS = 1_000_000

DOCUMENTED = (ROOT / "docs" / "policies.md").read_text()
EXPERIMENTS = ROOT / "harness" / "experiments"
DATED = re.compile(r"\b(19|20)\d\d\b")
"""The year of a publication, or of a release."""
PARTS = ("What it does", "When to use it", "Parameters", "Contains", "Worst harm", "Source", "Shown by")
NO_POLICIES = {"Ready queues"}
"""What the page has beside policies."""

ROUNDS = ("dhc", "dqt", "fair-dqt", "two-queue", "modified-two-queue", "multilevel-two-queue")
"""Policies whose table is what is left of a round: jobs that have begun may wait for the next."""


def session(name, jobs, processors=2, **options):
    return Session(policies.create(name, options), Machine(processors), jobs)


def identical(count, processes=2, moldable=True):
    return [Job(number, processes, 0, moldable) for number in range(count)]


def arrive_all(run, jobs, now_ns=0):
    for job in jobs:
        plan = run.arrive(job.number, now_ns)
    return plan


def runs(plan):
    return [slot.runs for slot in plan.decision.slots]


@pytest.mark.parametrize("name", ["none", "implicit"])
def test_sharing_lets_everything_run_everywhere(name):
    jobs = identical(3)
    plan = arrive_all(session(name, jobs), jobs)
    assert runs(plan) == [((0, 1, 2), (0, 1, 2))]
    assert plan.decision.slots[0].length_ns is None
    assert plan.decision.placements == {0: (0, 1), 1: (0, 1), 2: (0, 1)}


def test_gang_rotates_over_one_row_a_job():
    jobs = identical(3)
    plan = arrive_all(session("gang", jobs, quantum_ms=10), jobs)
    assert runs(plan) == [((0,), (0,)), ((1,), (1,)), ((2,), (2,))]
    assert [plan.cycle.slot_at(t * MS)[0] for t in (0, 9, 10, 20, 29, 30, 65)] == [0, 0, 1, 2, 2, 0, 0]
    assert plan.cycle.slot_at(25 * MS) == (2, 30 * MS)


def test_gang_packs_small_jobs_into_one_row():
    jobs = [Job(0, 2), Job(1, 2), Job(2, 4)]
    plan = arrive_all(session("gang", jobs, processors=4), jobs)
    assert runs(plan) == [((0,), (0,), (1,), (1,)), ((2,), (2,), (2,), (2,))]


def test_a_lone_gang_is_never_interrupted():
    jobs = identical(1)
    plan = arrive_all(session("gang", jobs), jobs)
    assert plan.cycle.slot_at(10**12) == (0, None)


def test_gang_goes_on_in_the_middle_of_the_interrupted_slot():
    jobs = identical(4)
    run = session("gang", jobs, quantum_ms=10)
    arrive_all(run, jobs[:3])
    plan = run.arrive(3, 14 * MS)  # job 1 is 4 ms into its slot
    assert plan.decision.running(0) == {1}
    assert plan.cycle.slot_at(14 * MS) == (0, 20 * MS)
    assert [sorted(plan.decision.running(i)) for i in range(4)] == [[1], [2], [0], [3]]


def test_gang_passes_to_the_next_row_when_the_running_one_leaves():
    jobs = identical(3)
    run = session("gang", jobs, quantum_ms=10)
    arrive_all(run, jobs)
    plan = run.depart(1, 14 * MS)
    assert plan.decision.running(0) == {2}
    assert plan.cycle.slot_at(14 * MS) == (0, 24 * MS)


def test_a_busy_stream_of_arrivals_starves_no_row():
    jobs = identical(12)
    run = session("gang", jobs, quantum_ms=10)
    arrive_all(run, jobs[:2])
    ran = set()
    for number in range(2, 12):
        now_ns = (number - 1) * 4 * MS  # faster than a slot
        plan = run.arrive(number, now_ns)
        ran |= plan.decision.running(plan.cycle.slot_at(now_ns)[0])
    assert {0, 1} <= ran


def test_equipartition_moulds_jobs_and_queues_the_rest():
    jobs = identical(3)
    run = session("partitioned", jobs)
    assert [run.processes(job.number) for job in jobs] == [1, 1, 1]
    plan = arrive_all(run, jobs)
    assert plan.decision.placements == {0: (0,), 1: (1,)}
    assert run.depart(1, 5).decision.placements == {0: (0,), 2: (1,)}


def test_equipartition_leaves_rigid_jobs_whole():
    jobs = identical(2, moldable=False)
    run = session("partitioned", jobs)
    assert run.processes(0) == 2
    assert arrive_all(run, jobs).decision.placements == {0: (0, 1)}
    assert run.depart(0, 5).decision.placements == {1: (0, 1)}


def test_batch_runs_one_job_after_the_other():
    jobs = identical(3)
    run = session("batch", jobs)
    assert runs(arrive_all(run, jobs)) == [((0,), (0,))]
    assert runs(run.depart(0, 5)) == [((1,), (1,))]
    assert runs(run.depart(1, 9)) == [((2,), (2,))]
    assert runs(run.depart(2, 10)) == [((), ())]


def test_processor_sets_join_the_pool_when_their_time_is_over():
    jobs = [Job(0, 2), Job(1, 2), Job(2, 1), Job(3, 1)]
    run = session("processor-sets", jobs, processors=3, hold_ms=100)
    assert runs(run.arrive(0, 0)) == [((0,), (0,), ())]
    plan = run.arrive(1, 30 * MS)
    assert (runs(plan), plan.cycle.end_ns) == ([((0,), (0,), ())], 100 * MS), "one free processor is too few"
    plan = run.slot_end(100 * MS)
    assert (runs(plan), plan.cycle.end_ns) == ([((0, 1), (0,), (1,))], None)
    assert runs(run.arrive(2, 120 * MS)) == [((0, 1), (0, 2), (1,))]
    run.depart(0, 150 * MS)
    run.depart(2, 160 * MS)
    plan = run.arrive(3, 200 * MS)
    assert (runs(plan), plan.cycle.end_ns) == ([((1,), (3,), (1,))], None), "3 has a set, and nobody waits"


def test_a_processor_set_is_let_go_late_if_nobody_waits():
    jobs = identical(3)
    run = session("processor-sets", jobs, hold_ms=10)
    arrive_all(run, jobs[:1])
    assert runs(run.arrive(1, 25 * MS)) == [((0, 1), (0, 1))], "the time of job 0 has been over since 10 ms"
    run.depart(0, 30 * MS)
    run.depart(1, 31 * MS)
    plan = arrive_all(run, jobs[2:], 40 * MS)
    assert (runs(plan), plan.cycle.end_ns) == ([((2,), (2,))], None)


@st.composite
def histories(draw):
    """A policy, a machine, jobs, and a random order of arrivals and departures."""
    name = draw(st.sampled_from(sorted(policies.known())))
    processors = draw(st.integers(1, 6))
    count = draw(st.integers(1, 6))
    jobs = [Job(number, draw(st.integers(1, processors)), 0, draw(st.booleans())) for number in range(count)]
    steps = draw(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 100)), min_size=1, max_size=30))
    return name, processors, jobs, steps


@given(histories())
def test_no_policy_ever_breaks_these_rules(history):
    name, processors, jobs, steps = history
    run = Session(policies.create(name, {}), Machine(processors), jobs)
    shared = ("none", "implicit", "dynamic-coscheduling", "process-control", "processor-sets", "working-sets")
    space_shared = name not in shared
    waiting, here, now_ns = [job.number for job in jobs], [], 0
    for wait_ms, choice in steps:
        now_ns += wait_ms * MS
        placed = [n for n in here if run.plan and n in run.plan.decision.placements]
        if waiting and (choice % 2 or not placed):
            number = waiting.pop(0)
            here.append(number)
            plan = run.arrive(number, now_ns)
        elif placed:
            number = placed[choice % len(placed)]
            here.remove(number)
            plan = run.depart(number, now_ns)
        else:
            break
        decision = plan.decision
        assert set(decision.placements) <= set(here)
        assert here == [] or decision.placements, "somebody is always admitted"
        for slot in decision.slots:
            for processor, able in enumerate(slot.runs):
                assert all(processor in decision.placements[number] for number in able)
                if space_shared:
                    assert len(able) <= 1
        for number, place in decision.placements.items():
            assert len(place) == (run.processes(number) or len(place))
            waits_for_next_round = name in ROUNDS and not decision.cyclic
            assert waits_for_next_round or any(
                number in decision.running(i) for i in range(len(decision.slots))
            )
        index, end_ns = plan.cycle.slot_at(now_ns)
        assert index == 0, "a decision begins with its first slot"
        assert end_ns is None or end_ns > now_ns


@given(histories())
def test_policies_are_pure(history):
    name, processors, jobs, _ = history
    policy = policies.create(name, {})
    view = View(Machine(processors), 0, tuple(jobs), len(jobs))
    assert policy.decide(view, Reason.ARRIVAL) == policy.decide(view, Reason.ARRIVAL)
    with pytest.raises(AttributeError):
        policy.anything = 1


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("gangs", {}, ["must be one of", "gang", "did you mean"]),
        ("gang", {"quantum": 5}, ["no such parameter", "did you mean 'quantum_ms'"]),
        ("gang", {"quantum_ms": 0}, ["at least 0.01"]),
        ("gang", {"packing": "tight"}, ["must be one of matrix"]),
        ("partitioned", {"allocation": "best"}, ["must be one of equipartition"]),
        ("batch", {"quantum_ms": 5}, ["no such parameter", "it has: none"]),
    ],
)
def test_bad_input_is_named(name, options, words):
    with pytest.raises(InputError) as error:
        policies.create(name, options)
    for word in words:
        assert word in str(error.value)


def test_every_policy_names_its_source():
    for policy in policies.known().values():
        assert policy.source
        assert policy.__doc__


def test_the_session_refuses_impossible_decisions():
    class Absurd:
        follows_phases = False

        def processes(self, job, view):
            return job.processes

        def decide(self, view, why):
            return Decision({0: (0, 5)}, (Slot(((0,), ())),))

    run = Session(Absurd(), Machine(2), identical(1))
    with pytest.raises(ValueError, match="places job 0"):
        run.arrive(0, 0)


def sections():
    """What docs/policies.md says of each policy, and of ready queues, each in one line."""
    _, *parts = re.split(r"^## ", DOCUMENTED, flags=re.MULTILINE)
    return {part.split("\n", 1)[0]: " ".join(part.split()) for part in parts}


def test_every_policy_is_documented_and_no_other():
    assert set(sections()) == set(policies.known()) | NO_POLICIES


@pytest.mark.parametrize("name", sections())
def test_an_entry_has_a_dated_source_and_names_what_shows_its_point(name):
    """An experiment that is named for a policy has it, and a test file exists."""
    section = sections()[name]
    assert [section.count(f"**{part}.**") for part in PARTS] == [1] * len(PARTS)
    places = [section.index(f"**{part}.**") for part in PARTS]
    assert places == sorted(places)
    assert DATED.search(section)
    experiments = set(re.findall(r"`lockstep (?:run|simulate|submit) ([\w-]+)", section[places[-1] :]))
    tests = re.findall(r"`(tests/[\w/]+\.py)`", section[places[-1] :])
    assert experiments or tests
    assert all((ROOT / test).exists() for test in tests)
    for experiment in experiments:
        tables = tomllib.loads((EXPERIMENTS / f"{experiment}.toml").read_text())["schedulers"]
        assert name in {table["policy"] for table in tables} | NO_POLICIES


@pytest.mark.parametrize("name", list(policies.known()))
def test_the_source_of_a_policy_is_dated(name):
    assert DATED.search(policies.known()[name].source)


@pytest.mark.parametrize("name", list(policies.known()))
def test_a_policy_is_documented_with_its_parameters_and_defaults(name):
    section = sections()[name]
    places = [section.index(f"**{part}.**") for part in PARTS]
    assert places == sorted(places)
    written = section[places[2] : places[3]]
    for key, value in policies.parameters(name).items():
        shown = f"`{value}`" if isinstance(value, str) else json.dumps(value).replace(".0", "")
        assert re.search(rf"`{key}` \(default {re.escape(shown)}[,)]", written), key

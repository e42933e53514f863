"""Policies without processes: what none of them may ever do; what they decide: test_scenes.py."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from sessions import MS, session

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.view import Decision, Job, Machine, Reason, Slot, View
from harness.spec.scheduler import plain
from workloads.validation import InputError

ROUNDS = ("dhc", "dqt", "fair-dqt", "two-queue", "modified-two-queue", "multilevel-two-queue")
"""Policies whose table is what is left of a round: jobs that have begun may wait for the next."""


FAMILIES = sorted((ROOT / "docs" / "policies").glob("*.md"))
"""A page for each family of policies."""

SHARING = sorted(name for name in policies.known() if "share" in policies.parameters(name))


@st.composite
def histories(draw):
    """A policy, a machine, jobs, and a random order of arrivals and departures."""
    name = draw(st.sampled_from(sorted(policies.known())))
    processors = draw(st.integers(1, 6))
    count = draw(st.integers(1, 6))
    jobs = [Job(number, draw(st.integers(1, processors)), 0, draw(st.booleans())) for number in range(count)]
    steps = draw(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 100)), min_size=1, max_size=30))
    return name, processors, jobs, steps


@given(
    st.sampled_from(["none", "implicit", "working-sets", "process-control"]),
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 5)), min_size=1, max_size=25),
    st.sets(st.integers(0, 3), max_size=2),
)
def test_a_shared_slot_has_every_job_on_all_of_its_processors(name, steps, lost):
    jobs = [Job(number, size) for number, (_, _, size) in enumerate(steps)]
    run = session(name, jobs, 4)
    here = []
    for number, (leaves, which, _) in enumerate(steps):
        run.arrive(number).decide(number)
        here.append(number)
        if leaves:
            run.depart(here.pop(which % len(here))).decide(number)
        if number == 3:
            run.lose(lost).decide(number)
        decided = run.plan.decision
        shares = [tuple(n for n in here if p in decided.placements[n]) for p in range(4)]
        assert decided.slots[0].runs == tuple(shares)


@given(histories())
def test_no_policy_ever_breaks_these_rules(history):
    name, processors, jobs, steps = history
    run = session(name, jobs, processors)
    shared = ("none", "implicit", "dynamic-coscheduling", "process-control", "processor-sets", "working-sets")
    space_shared = name not in shared
    waiting, here, now_ns = [job.number for job in jobs], [], 0
    for wait_ms, choice in steps:
        now_ns += wait_ms * MS
        placed = [n for n in here if run.plan and n in run.plan.decision.placements]
        if waiting and (choice % 2 or not placed):
            number = waiting.pop(0)
            here.append(number)
            plan = run.arrive(number).decide(now_ns)
        elif placed:
            number = placed[choice % len(placed)]
            here.remove(number)
            plan = run.depart(number).decide(now_ns)
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
        ("gangs", {}, [" names; ", "did you mean 'gang'"]),
        ("gang", {"quantum": 5}, ["is not a parameter of the policy", "did you mean 'quantum_ms'"]),
        ("gang", {"quantum_ms": 0}, ["from 0.01 to"]),
        ("gang", {"packing": "tight"}, ["must be one of matrix"]),
        ("partitioned", {"allocation": "best"}, ["must be equipartition; write equipartition"]),
        ("batch", {"quantum_ms": 5}, ["is not a parameter of the policy", "remove it"]),
        ("gang", {"packing": "continuous", "migrate": True}, ["needs rows to empty"]),
        *((name, {"share": "interactive"}, ["sequential"]) for name in SHARING),
        ("hypercube", {"allocator": "buddies"}, ["must be one of buddy, gray-code", "did you mean 'buddy'"]),
        ("mesh", {"allocator": "gray-code"}, ["must be one of buddy, frame-sliding"]),
        ("mesh", {"page": 2}, ["'first-fit' has no pages", 'write allocator = "paging"']),
        ("mesh", {"allocator": "paging", "page": 0}, ["from 1 to 4096"]),
    ],
)
def test_bad_input_is_named(name, options, words):
    with pytest.raises(InputError) as error:
        policies.create(name, options)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision({0: (0, 5)}, (Slot(((0,), ())),)), "places job 0"),
        (Decision({0: (0,)}, (Slot(((0,), ()), 5, ((0, 1),)),)), "rank 1 of job 0"),
        (Decision({}, (Slot(((), ())),), vacates=(0,)), "vacates"),
    ],
)
def test_the_session_refuses_impossible_decisions(decision, words):
    class Absurd:
        allows_oversubscription = reacts_to_phases = uses_attained_service = False

        def decide(self, view, reason):
            return decision

    with pytest.raises(ValueError, match=words):
        Session(Absurd(), Machine(2), [Job(0, 2)]).arrive(0).decide(0)


@pytest.mark.parametrize(("name", "least"), [("gang", {0, 1}), ("rr-job", {0, 1, 2, 3})])
def test_a_busy_stream_of_arrivals_starves_nobody(name, least):
    run, ran = session(name, [2] * 12, quantum_ms=10), set()
    for number in range(12):
        now_ns = number * 4 * MS  # faster than a slot
        plan = run.arrive(number).decide(now_ns)
        ran |= plan.decision.running(plan.cycle.slot_at(now_ns)[0])
    assert least <= ran


def test_the_documents_sum_up_every_policy(golden):
    pages = {name: page.name for page in FAMILIES for name in re.findall(r"(?m)^## (\S+)$", page.read_text())}
    lines = []
    for name, policy in policies.known().items():
        what = re.split(r"[:;.]", policy.__doc__)[0].replace("``", "")
        stops = "yes" if policy.stops_processes else "no"
        link = f"[{name}](policies/{pages[name]}#{name})"
        lines.append(f"| {link} | {' '.join(what.split())} | {stops} | {policy.source} |")
    golden.table("policies.md", "| policy | what it does | stops processes | source |", lines)


def test_every_policy_is_documented_with_its_parameters_and_their_defaults():
    parts = [part for page in FAMILIES for part in page.read_text().split("\n## ")[1:]]
    sections = {part.partition("\n")[0]: " ".join(part.split()) for part in parts}
    assert sections.keys() == {*policies.known()}
    for name, policy in policies.known().items():
        assert policy.source and policy.__doc__
        for key, value in policies.parameters(name).items():
            shown = f"`{value}`" if isinstance(value, str) else json.dumps(plain(value)).replace(".0", "")
            assert re.search(rf"`{key}` \(default {re.escape(shown)}[,)]", sections[name]), (name, key)

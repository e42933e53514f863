"""Gang queueing: the registration office, its special cases, and the paper's Figure 6."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.policies import registration_office
from coordinator.policies.registration_office import Node, Rules
from coordinator.view import Job, Machine

MS = 1_000_000
JOBS = [Job(n, 1) for n in range(3)]


def test_the_pointer_moves_as_in_figure_6():
    """N = 4, f_1 = 3, f_2 = 5; a new job comes during the second round and ends in the third."""
    rules = Rules(service=4, slots=(1, 3, 5, 0))
    A, B, C, D, E, new = range(6)
    list_ = (Node(A, 3, 1), Node(B, 2, 4), Node(C, 2, 0), Node(D, 1, 1), Node(E, 1, 0))

    def play(list_, order):
        for job in order:
            list_ = registration_office.visited(list_, job, rules)
        return list_

    first = registration_office.one_round(list_, rules)
    assert first == (D, E, B, C), "the highest level first, each from left to right"
    list_ = play(list_, first)
    assert list_[-1] == Node(E, 1, 1), "the rightmost goes from (1, 0) to (1, 1)"
    assert list_[0] == Node(A, 3, 1), "the leftmost is not visited"
    assert list_[1] == Node(B, 3, 0), "the second goes from (2, 4) to (3, 0)"
    second = registration_office.one_round(list_, rules)
    assert second == (D, E, C, A), "at the lowest level the leftmost, which has had most service"
    list_ = registration_office.register(play(list_, second), [new])
    third = registration_office.one_round(list_, rules)
    assert third[0] == new, "a new arrival is served first in the next round"
    assert A not in third
    list_ = registration_office.check_out(play(list_, third), (A, B, C, D, E))
    assert set(registration_office.one_round(list_, rules)) == set(second), (
        "the same are served in the second and fourth"
    )
    keys = [(node.level, node.received) for node in list_]
    assert keys == sorted(keys, reverse=True), "levels and service never increase to the right"


@given(
    st.lists(st.sampled_from(["arrive", "depart", "round"]), max_size=40),
    st.integers(0, 5),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_the_list_stays_in_order_and_nobody_is_served_twice_a_round(events, service, slots):
    rules = Rules(service, tuple(slots))
    list_, number = (), 0
    for event in events:
        if event == "arrive":
            list_, number = registration_office.register(list_, [number]), number + 1
        elif event == "depart":
            list_ = list_[1:]
        else:
            order = registration_office.one_round(list_, rules)
            assert len(set(order)) == len(order) == (min(service, len(list_)) if service else len(list_))
            for job in order:
                list_ = registration_office.visited(list_, job, rules)
        levels = [node.level for node in list_]
        assert levels == sorted(levels, reverse=True)


def play(policy, jobs, lengths, ends):
    """Who runs in each slot of a policy: (job, slot length in ms), until ``ends`` slots have passed."""
    session = Session(policy, Machine(1), [Job(n, 1) for n in jobs])
    plan = None
    for job in jobs:
        plan = session.arrive(job, 0)
    left, ran, now_ns = dict(lengths), [], 0
    while left and len(ran) < ends:
        slot, end_ns = plan.cycle.slot_at(now_ns)
        (job,) = plan.decision.slots[slot].runs[0]
        length_ns = end_ns - now_ns
        ran.append((job, length_ns // MS))
        left[job] -= 1
        now_ns = end_ns
        if left[job] == 0:
            del left[job]
            plan = session.depart(job, now_ns)
        elif plan.cycle.slot_at(now_ns)[1] <= now_ns:
            plan = session.slot_end(now_ns)
    return ran


def round_robin(lengths, quantum_ms):
    """Textbook round robin."""
    queue, left, ran = list(lengths), dict(lengths), []
    while queue:
        job = queue.pop(0)
        ran.append((job, quantum_ms))
        left[job] -= 1
        queue += [job] if left[job] else []
    return ran


def foreground_background(lengths, quanta_ms):
    """Textbook FB: the first job of the highest level that has one gets a quantum and goes one level down."""
    levels, left, ran = [list(lengths)], dict(lengths), []
    while any(levels):
        level = next(n for n, queue in enumerate(levels) if queue)
        job = levels[level].pop(0)
        ran.append((job, quanta_ms[min(level, len(quanta_ms) - 1)]))
        left[job] -= 1
        if left[job]:
            levels += [[]] if level + 1 == len(levels) else []
            levels[level + 1].append(job)
    return ran


lengths = st.dictionaries(st.integers(0, 6), st.integers(1, 6), min_size=1, max_size=5)


@given(lengths)
def test_round_robin_is_a_special_case_decision_by_decision(lengths):
    """f_0 and N infinite."""
    expected = round_robin(lengths, 10)
    for name, options in (
        ("two-queue", {"service": 0, "quantum_ms": 10}),
        ("multilevel-two-queue", {"service": 0, "slots": [0], "quanta_ms": [10]}),
    ):
        assert play(policies.create(name, options), list(lengths), lengths, 99) == expected


@given(lengths)
def test_fb_is_a_special_case_decision_by_decision(lengths):
    """N = 1 and f_i = 1 for all i."""
    policy = policies.create("multilevel-two-queue", {"service": 1, "slots": [1], "quanta_ms": [10, 20, 30]})
    assert play(policy, list(lengths), lengths, 99) == foreground_background(lengths, [10, 20, 30])


@given(lengths)
def test_batch_is_a_service_queue_of_one(lengths):
    ran = play(policies.create("two-queue", {"service": 1}), list(lengths), lengths, 99)
    assert [job for job, _ in ran] == [job for job, count in lengths.items() for _ in range(count)]


@given(lengths)
def test_the_modified_system_is_the_multilevel_one_with_two_levels(lengths):
    modified = policies.create(
        "modified-two-queue", {"service": 3, "slots": 2, "quantum_ms": 10, "long_quantum_ms": 30}
    )
    levels = policies.create("multilevel-two-queue", {"service": 3, "slots": [2, 0], "quanta_ms": [10, 30]})
    assert play(modified, list(lengths), lengths, 99) == play(levels, list(lengths), lengths, 99)


def test_an_inserted_arrival_has_the_next_slot_and_the_round_goes_on():
    policy = policies.create("multilevel-two-queue", {"service": 2, "insert": True, "quanta_ms": [10]})
    session = Session(policy, Machine(1), JOBS)
    session.arrive(0, 0)
    session.arrive(1, 0)
    plan = session.arrive(2, 4 * MS)
    order = [slot.runs[0][0] for slot in plan.decision.slots]
    assert order == [0, 2, 1], "after it the round goes on"
    assert plan.cycle.slot_at(4 * MS) == (0, 10 * MS), "the slot that is running is not lengthened"


def test_a_full_service_queue_lets_an_arrival_wait_for_the_next_round():
    session = Session(policies.create("two-queue", {"service": 2, "quantum_ms": 10}), Machine(1), JOBS)
    session.arrive(0, 0)
    session.arrive(1, 0)
    plan = session.arrive(2, 4 * MS)
    assert [slot.runs[0][0] for slot in plan.decision.slots] == [0, 1]
    plan = session.depart(0, 7 * MS)
    plan = session.slot_end(17 * MS)
    assert [slot.runs[0][0] for slot in plan.decision.slots] == [1, 2]


def test_limits_let_fewer_long_jobs_into_the_service_queue():
    rules = Rules(service=4, slots=(1,), limits=(0, 1))
    list_ = (Node(0, 2), Node(1, 1), Node(2, 1), Node(3, 0))
    assert registration_office.one_round(list_, rules) == (3, 1, 0)

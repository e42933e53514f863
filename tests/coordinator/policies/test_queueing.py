"""Gang queueing: the registration office, its special cases, and the paper's Figure 6."""

from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st
from sessions import MS, session

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.policies import queueing
from coordinator.policies.queueing import Registration, Rules
from coordinator.view import Job, Machine


def play(policy, jobs, lengths, ends):
    """Who runs in each slot of a policy: (job, slot length in ms), until ``ends`` slots have passed."""
    session = Session(policy, Machine(1), [Job(n, 1) for n in jobs])
    plan = session.arrive(jobs[0]).decide(0)
    for job in jobs[1:]:
        plan = session.arrive(job).decide(0)
    left = dict(lengths)
    ran = []
    now_ns = 0
    while left and len(ran) < ends:
        slot, end_ns = plan.cycle.slot_at(now_ns)
        (job,) = plan.decision.slots[slot].runs[0]
        length_ns = end_ns - now_ns
        ran.append((job, length_ns // MS))
        left[job] -= 1
        now_ns = end_ns
        if left[job] == 0:
            del left[job]
            plan = session.depart(job).decide(now_ns)
        elif plan.cycle.slot_at(now_ns)[1] <= now_ns:
            plan = session.slot_end().decide(now_ns)
    return ran


def round_robin(lengths, quantum_ms):
    queue = list(lengths)
    left = dict(lengths)
    ran = []
    while queue:
        job = queue.pop(0)
        ran.append((job, quantum_ms))
        left[job] -= 1
        queue += [job] if left[job] else []
    return ran


def foreground_background(lengths, quanta_ms):
    """Textbook FB: the first job of the highest level that has one gets a quantum and goes one level down."""
    levels = [list(lengths)]
    left = dict(lengths)
    ran = []
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


def order(plan):
    """Whose slots follow one another in a plan."""
    return [job for slot in plan.decision.slots for job in slot.runs[0]]


def test_short_jobs_do_not_prolong_a_round_for_the_long_one_in_service():
    """Of three places the long job has one: each third slot is its own."""
    run = session("two-queue", [1] * 12, 1, arrived=12, service=3, quantum_ms=10)
    ran = []
    now_ns = 0
    while len(ran) < 13:
        slot, end_ns = run.plan.cycle.slot_at(now_ns)
        (job,) = run.plan.decision.slots[slot].runs[0]
        ran.append(job)
        now_ns += 3 * MS if job != 2 else 10 * MS
        if job != 2:
            run.depart(job).decide(now_ns)
        elif end_ns == run.plan.cycle.end_ns:
            run.slot_end().decide(now_ns)
    assert [place for place, job in enumerate(ran) if job == 2] == [2, 5, 8, 11]


class Watched:
    """Feeds a session events and checks after each what section 5 of the paper promises.

    Levels, and the service at each level, never increase from left to right. New jobs are served
    first come, first served. A job has at most one slot a round, and between two slots of a job
    the others of its service queue have at most one each, newcomers that are inserted aside.
    """

    def __init__(self, name, options, count):
        self.policy = policies.create(name, options)
        self.session = Session(self.policy, Machine(1), [Job(n, 1) for n in range(count)])
        self.now_ns = 0
        self.arrived = 0
        self.count = count
        self.here = []
        self.served = []
        self.ran = []

    def arrive(self):
        if self.arrived < self.count:
            self.here.append(self.arrived)
            self.check(self.session.arrive(self.arrived).decide(self.now_ns))
            self.arrived += 1

    def depart(self, choice):
        """The job that runs ends, or, if it has not run yet, another one is ended."""
        if self.here:
            job = choice if choice in self.here else self.running()
            self.here.remove(job)
            self.check(self.session.depart(job).decide(self.now_ns))

    def running(self):
        return self.session.plan.decision.slots[self.session.plan.cycle.slot_at(self.now_ns)[0]].runs[0][0]

    def pass_time(self, share):
        if self.here:
            job = self.running()
            _, end_ns = self.session.plan.cycle.slot_at(self.now_ns)
            if share and (not self.ran or self.ran[-1] != (job, end_ns)):
                self.ran.append((job, end_ns))
                self.served += [] if job in self.served else [job]
            self.now_ns += round(share * (end_ns - self.now_ns))
            if share == 1 and end_ns == self.session.plan.cycle.end_ns:
                self.check(self.session.slot_end().decide(self.now_ns))

    def check(self, plan):
        """The office now and after each slot to come, and the table."""
        state = plan.decision.state
        rules = self.policy.rules()
        office = state.office
        table = order(plan)
        assert len(set(table)) == len(table), "one slot a round"
        assert bool(table) == bool(self.here), "somebody runs if anybody is here"
        for job in (None, *table):
            office = queueing.visited(office, job, rules)
            keys = [(node.level, node.received) for node in office]
            for _, level in groupby(keys, key=lambda key: key[0]):
                received = [key[1] for key in level]
                assert received == sorted(received, reverse=True)
            levels = [key[0] for key in keys]
            assert levels == sorted(levels, reverse=True)

    def check_all(self):
        """The order in which jobs were first served, and how often others ran between two slots of one."""
        assert self.served == sorted(self.served)
        service = self.policy.rules().service
        for job in set(self.served) if service and not self.policy.insert else ():
            places = [n for n, (ran, _) in enumerate(self.ran) if ran == job]
            for a, b in pairwise(places):
                others = [ran for ran, _ in self.ran[a + 1 : b]]
                assert self.policy.rules().slots != (0,) or len(others) < service


@given(st.data())
def test_the_invariants_of_section_5_hold_after_any_events(data):
    """Events one after the other, for one of the systems."""

    def draw(below):
        return data.draw(st.integers(0, below - 1))

    name = ("two-queue", "modified-two-queue", "multilevel-two-queue")[draw(3)]
    options = {"service": draw(5)}
    if name != "two-queue":
        options["insert"] = bool(draw(2))
    if name == "modified-two-queue":
        options["slots"] = 1 + draw(4)
    if name == "multilevel-two-queue":
        options["slots"] = [1 + draw(4) for _ in range(1 + draw(4))]
        options["limits"] = [draw(4) for _ in range(1 + draw(3))]
    run = Watched(name, options, 12)
    for _ in range(10 + draw(40)):
        what = draw(8)
        if what < 2:
            run.arrive()
        elif what == 2:
            run.depart(draw(24))
        else:
            run.pass_time((0, 0.25, 1, 1, 1)[what - 3])
    run.check_all()


def test_limits_let_fewer_long_jobs_into_the_service_queue():
    rules = Rules(service=4, slots=(1,), limits=(0, 1))
    list_ = (Registration(0, 2), Registration(1, 1), Registration(2, 1), Registration(3, 0))
    assert queueing.one_round(list_, rules) == (3, 1, 0)

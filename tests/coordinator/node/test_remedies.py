"""Remedies for processes that lose their processors in critical sections."""

import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from places import ROOT, SUPPORT
from runs import eventually, running, spawned, workload
from slots_of_jobs import Holder, gang, switching
from threads import ended, together

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.host.mechanisms import Realtime
from coordinator.node.section_remedies import LOOKS, Activations, DoNotPreempt, SectionPages
from harness.analyse.rows import SectionRate
from harness.report.charts import throughput
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from harness.spec.naming import scheduler_name
from harness.spec.scheduler import scheduler_of
from workloads.locks import ASLEEP, INSIDE, LINE_BYTES, OUTSIDE, QUEUED, SectionLocks, SectionMarks, page_file
from workloads.locks.lock_program import LOCKS, LockProgram
from workloads.options import Options, Remedy
from workloads.validation import InputError

LONG_US = 1e5


@pytest.fixture
def page(tmp_path):
    """The page of job 0 with two ranks; ``locks`` makes the locks of rank 1 under a remedy."""
    file = os.open(page_file(tmp_path, 0), os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 4 * LINE_BYTES)
    made = []

    def locks(name, warning_us=100.0, limit_ns=1 << 62):
        given = 1, 2, 1, LOCKS["ticket"], limit_ns, Remedy(name, warning_us=warning_us)
        made.append(SectionLocks(file, *given))
        return made[-1]

    def put(*states):
        for rank, state in enumerate(states):
            os.pwrite(file, state.to_bytes(4, "little"), rank * LINE_BYTES)

    yield SimpleNamespace(locks=locks, file=page_file(tmp_path, 0), pages=SectionPages(tmp_path), put=put)
    for one in made:
        one.close()
    os.close(file)


def test_who_is_warned_enters_no_section_before_the_end_of_its_slot(page):
    locks = page.locks("warning", 1e5)
    ends_ns = time.monotonic_ns() + 3_000_000
    page.pages.announce(0, 1, ends_ns)
    locks.enter(0)
    assert time.monotonic_ns() >= ends_ns, "and then enters, since nobody stops it"
    assert locks.last_wait()[0] > 0
    locks.leave(0)


def test_who_is_not_warned_yet_enters_at_once(page):
    locks = page.locks("warning", 1e4)
    for at_ns in (0, time.monotonic_ns() + round(LONG_US * 1e3), time.monotonic_ns() - 10**9):
        page.pages.announce(0, 1, at_ns)
        locks.enter(0)  # else it would wait for an hour
        locks.leave(0)


def test_without_the_remedy_nobody_heeds_the_warning(page):
    locks = page.locks("none", LONG_US)
    page.pages.announce(0, 1, time.monotonic_ns() + round(LONG_US * 1e3))
    locks.enter(0)
    locks.leave(0)


def test_a_job_without_locks_is_not_warned(tmp_path):
    SectionPages(tmp_path).announce(3, 0, 17)
    assert list(tmp_path.iterdir()) == []


KINDS = pytest.mark.parametrize("kind", LOCKS.values(), ids=LOCKS)


@contextmanager
def in_another_process(file, rank, kind, name):
    """Rank ``rank`` of three in another process, which enters a section, stops itself there, and leaves."""
    (lock,) = [word for word, number in LOCKS.items() if number == kind]
    words = [sys.executable, SUPPORT / "section_rank.py", str(file), str(rank), lock, name]
    with spawned(*words, marks={"PYTHONPATH": str(ROOT)}, pass_fds=[file]) as process:
        yield process.pid


@pytest.fixture
def shared(request):
    """A page for three ranks; ``state`` is a rank's, ``locks`` the locks of a rank in this process."""
    file = os.memfd_create("locks")
    made = []

    def locks(rank, kind, name):
        made.append(SectionLocks(file, rank, 3, 1, kind, 1 << 62, Remedy(name)))
        return made[-1]

    def state(rank):
        return int.from_bytes(os.pread(file, 4, rank * LINE_BYTES), "little")

    yield SimpleNamespace(file=file, locks=locks, state=state)
    for one in made:
        one.close()
    os.close(file)


def stopped(pid):
    """Whether the process is stopped; it waits until it is."""
    return os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])


@KINDS
def test_who_is_conscious_of_the_scheduler_sleeps_as_long_as_the_holder_is_stopped(shared, kind):
    own = shared.locks(0, kind, "conscious")
    with in_another_process(shared.file, 1, kind, "conscious") as pid:
        assert stopped(pid)
        (thread,) = together(lambda: own.enter(0))
        assert eventually(lambda: shared.state(0) == ASLEEP), "although its rule is to spin"
        os.kill(pid, signal.SIGCONT)
        assert ended([thread])
        assert own.last_wait()[1] >= 1
        own.leave(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@KINDS
def test_a_lock_goes_to_the_one_that_runs_and_not_to_the_one_that_came_first(shared, kind):
    holder, runner = (shared.locks(rank, kind, "conscious") for rank in (0, 2))
    holder.enter(0)
    with in_another_process(shared.file, 1, kind, "conscious") as pid:
        assert eventually(lambda: shared.state(1) in (QUEUED, ASLEEP))
        os.kill(pid, signal.SIGSTOP)
        assert stopped(pid)
        (thread,) = together(lambda: runner.enter(0))
        assert eventually(lambda: shared.state(2) == QUEUED)
        holder.leave(0)
        assert ended([thread])
        runner.leave(0)
        os.kill(pid, signal.SIGCONT)
        assert stopped(pid), "now it has entered, too"
        os.kill(pid, signal.SIGCONT)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@KINDS
@pytest.mark.skipif(bool(Realtime.unavailable()), reason="needs realtime scheduling")
def test_who_spins_lifts_the_holder_until_it_leaves(shared, kind):
    own = shared.locks(0, kind, "inheritance")
    with in_another_process(shared.file, 1, kind, "inheritance") as pid:
        assert stopped(pid)
        assert os.sched_getscheduler(pid) == os.SCHED_OTHER
        (thread,) = together(lambda: own.enter(0))
        assert eventually(lambda: os.sched_getscheduler(pid) == os.SCHED_RR)
        os.kill(pid, signal.SIGCONT)
        assert ended([thread])
        own.leave(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "2: still realtime"


def announced(*tables, until_ns=0):
    """What a switcher with ranks 0.0 to 1.1 says after its last change of slot."""
    said = {}
    switcher, clock = switching(Holder(), announce=lambda job, rank, at_ns: said.update({(job, rank): at_ns}))
    for table in tables:
        switcher.publish(table)
    while clock[0] <= until_ns:
        switcher.switch(clock[0])
        clock[0] += 10
    return said


def test_ranks_learn_when_they_will_be_stopped():
    assert announced(gang(0, 0, 0, 1)) == {(0, 0): 10, (0, 1): 10, (1, 0): None, (1, 1): None}
    assert announced(gang(0, 0, 0, 1), until_ns=10) == {(0, 0): None, (0, 1): None, (1, 0): 20, (1, 1): 20}


def test_who_runs_on_in_the_next_slot_is_not_warned():
    assert announced(gang(0, 0, 0, 0))[0, 0] is None
    last = announced(gang(0, 0, 0, 1, cyclic=False), until_ns=10)
    assert last[1, 0] is None, "what comes after the table is not known yet"


BIT = {"remedy": {"kind": "defer", "deferrals": 3}}


def remedy(kind, **more):
    return {"remedy": {"kind": kind, **more}}


@pytest.mark.parametrize(
    "table, message",
    [
        ({"policy": "none"}, "'none' stops none"),
        ({"policy": "none", **BIT}, "'none' stops none"),
        ({"policy": "gang", "mechanism": "realtime"}, "does not stop the processes"),
        ({"policy": "gang", "mechanism": "realtime", **BIT}, "does not stop the processes"),
        ({"policy": "gang", **remedy("defer", deferrals=11)}, "deferrals = 11: .* from 1 to 10"),
        (
            {"policy": "gang", **remedy("defer", deferral_us=0)},
            "deferral_us = 0: .* to 1000",
        ),
        ({"policy": "gang", **remedy("warning", warning_us=0)}, "from 1 to 100000"),
        (
            {"policy": "gang", "quantum_ms": 2, **remedy("warning", warning_us=2000)},
            "must be shorter than a slot .2 ms.",
        ),
        ({"policy": "gang", **remedy("warnig")}, "did you mean 'warning'"),
        ({"policy": "gang", **remedy("inheritance")}, "cannot act under 'gang'"),
        ({"policy": "none", "local": "rr", **remedy("inheritance")}, "must be other with inheritance"),
        ({"policy": "none", **remedy("activations")}, "'none' stops none"),
        ({"policy": "gang", "bind": False, **remedy("activations")}, "goes back to its own"),
    ],
)
def test_where_a_remedy_means_nothing_it_is_refused(table, message):
    with pytest.raises(InputError, match=message):
        scheduler_of({**remedy("warning"), **table})


@pytest.mark.parametrize(
    "more, name",
    [
        (remedy("warning"), "gang 10 ms, two-minute warning"),
        (remedy("warning", warning_us=2000), "gang 10 ms, two-minute warning 2 ms"),
        (remedy("defer", deferrals=3, deferral_us=20), "gang 10 ms, do not preempt 3 x 20 us"),
    ],
)
def test_a_name_says_the_remedy(more, name):
    table = {"policy": "gang", "quantum_ms": 10}
    assert scheduler_name(scheduler_of(table | more).table) == name


DEFER = Remedy("defer", deferrals=3, deferral_us=50)


def held(page, *states):
    """What becomes of a rank that has these states when it is looked at; the last one remains."""
    mechanism = Holder()
    coming = list(states)

    def step(deed=None):
        if deed:
            mechanism.said.append((deed, None))
        if coming:
            page.put(OUTSIDE, coming.pop(0))

    spared = DoNotPreempt(mechanism, page.pages, DEFER, lambda _: step("pause"))
    hold, mechanism.hold = mechanism.hold, lambda process: (hold(process), step())
    process = object()
    spared.adopt(process, 0, 1)
    step()
    spared.hold(process)
    return [deed for deed, _ in mechanism.said]


@pytest.mark.parametrize(
    "states, deeds",
    [
        ([OUTSIDE], ["hold"]),
        ([INSIDE, INSIDE, OUTSIDE], ["pause", "pause", "hold"]),
        ([INSIDE], ["pause"] * DEFER.deferrals + ["hold"]),
        ([OUTSIDE, INSIDE, OUTSIDE], ["hold", "run", "pause", "hold"]),
        ([ASLEEP], ["hold"]),
    ],
    ids=[
        *("outside", "until it has left", "after the last time", "enters as it is held"),
        "sleeps for its turn",
    ],
)
def test_a_process_is_held_when_it_is_outside_of_sections(page, states, deeds):
    assert held(page, *states) == deeds


def test_a_section_that_is_entered_and_left_is_seen(page):
    locks = page.locks("none", limit_ns=0)
    marks = SectionMarks(page.file)
    locks.enter(0)
    assert marks.inside(1)
    locks.leave(0)
    assert not marks.inside(1)


def test_a_job_without_locks_is_held_at_once(tmp_path):
    mechanism = Holder()
    mechanism.adopt = lambda *given: mechanism.said.append(given)
    spared = DoNotPreempt(mechanism, SectionPages(tmp_path), DEFER, time.sleep)
    spared.adopt(1, 4, 0)
    spared.hold(1)
    page_file(tmp_path, 4).touch()  # a page that its ranks have not filled yet
    spared.hold(1)
    assert mechanism.said == [(1, 4, 0), ("hold", 1), ("hold", 1)]


def test_a_job_that_starts_again_has_a_new_page(page):
    mechanism = Holder()
    spared = DoNotPreempt(mechanism, page.pages, DEFER, lambda _: mechanism.said.append("pause"))
    page.put(OUTSIDE, INSIDE)
    spared.adopt(1, 0, 1)
    spared.hold(1)
    page.file.unlink()
    spared.adopt(2, 0, 1)
    spared.hold(2)
    assert mechanism.said[-2:] == [("hold", 1), ("hold", 2)]


def spun_us(remedy):
    """Mean wait for the lock of one of two jobs under gang; it includes the slots of the other."""
    program = LockProgram(processes=2, granularity_us=47, imbalance=0.5, section_us=20, phases=100)
    machine = SimulatedMachine(processors=2, context_switch_us=5, latency_us=2)
    jobs = [SimulatedJob(number, program) for number in range(2)]
    outcome = simulate(jobs, machine, policies.create("gang", {"quantum_ms": 0.5}), Options(remedy=remedy))
    waits = outcome.jobs[0].barriers
    return waits.spun_ns / waits.spun / 1e3


@pytest.mark.slow  # it compiles the simulator
def test_simulated_processes_wait_less_if_no_slot_ends_in_a_section():
    assert spun_us(Remedy("defer")) < 0.5 * spun_us(Remedy())


@pytest.mark.slow
@pytest.mark.parametrize("part", ["rank", "agent"])
def test_nothing_is_left_when_a_part_is_killed_as_ranks_hold_locks(part):
    how = {"section_us": 500, "granularity_us": 20, "phases": 1500, "waiting": "fixed"}
    with running(policy="gang", remedy={"kind": "defer"}, **how) as run:
        eventually(run.holds)
        os.kill(run.part(part), signal.SIGKILL)
        out, _ = run.driver.communicate(timeout=60)
        assert eventually(lambda: not run.remains())
        assert any(json.loads(out)["jobs"]), "a job has failed, and says why"


class Stopped:
    """A process as a mechanism knows it."""

    pid = os.getpid()

    def __init__(self, name, ended=False):
        self.name = name
        self.ended = ended

    def wait(self, timeout_s):
        return self.ended

    def __repr__(self):
        return self.name


class Activated(SimpleNamespace):
    """Ranks 0 and 1 of job 0 under scheduler activations; ``deeds`` says what happens to them.

    Rank 0 is held. ``states`` are those of both ranks at the beginning, then after each pause.
    """

    def __init__(self, page, states, mate=None):
        super().__init__(deeds=[])
        coming = list(states)

        def go_on(_=None):
            if _ is not None:
                self.deeds.append("pause")
            if coming:
                page.put(*coming.pop(0))

        def note(what):
            return lambda process, *_: self.deeds.append(f"{what} {process}")

        mechanism = SimpleNamespace(adopt=lambda *_: None, hold=note("hold"), run=note("run"))
        ranks = Stopped("0"), mate or Stopped("1")
        made = Activations(mechanism, page.pages, note("move"), go_on)
        for number, rank in enumerate(ranks):
            made.adopt(rank, 0, number)
        go_on()
        made.run(ranks[1])
        made.hold(ranks[0])
        self.deeds.clear()
        made.after_change()


VISIT = ["hold 1", "move 0", "run 0", "pause", "hold 0", "move 0", "run 1"]


VISITOR = INSIDE, OUTSIDE
"""States of both ranks: the one that is held is in a section, the other one in none."""


@pytest.mark.parametrize(
    "states, deeds",
    [
        pytest.param([VISITOR, (OUTSIDE, OUTSIDE)], VISIT, id="in the place of the other rank"),
        pytest.param(
            [(QUEUED, INSIDE), VISITOR, (OUTSIDE, OUTSIDE)],
            ["hold 1", "run 1", "pause", *VISIT],
            id="who waits for the other one visits when that has left",
        ),
        pytest.param([VISITOR], [*VISIT[:3], *["pause"] * LOOKS, *VISIT[4:]], id="it does not leave"),
        pytest.param([(OUTSIDE, OUTSIDE)], [], id="without a lock"),
        pytest.param([(ASLEEP, OUTSIDE)], [], id="asleep"),
    ],
)
def test_a_holder_that_is_stopped_runs_on_for_a_limited_time(page, states, deeds):
    assert Activated(page, states).deeds == deeds


def test_a_rank_that_has_ended_is_nobodys_host(page):
    assert Activated(page, [VISITOR], mate=Stopped("1", ended=True)).deeds == []


def throughputs(name, granularity_us, **sides):
    """A row with the relative throughput of sections of 20 us on each side."""
    rates = {side: SimpleNamespace(sections=SectionRate(1.0, value)) for side, value in sides.items()}
    return SimpleNamespace(
        name=name,
        program={"section_us": 20, "granularity_us": granularity_us},
        sides=rates,
        **{side: rates.get(side) for side in ("measured", "simulated")},
    )


def test_the_picture_has_the_throughput_of_each_remedy_against_the_share_of_time_in_sections():
    rows = [
        throughputs("none", 60, measured=0.5, simulated=0.6),
        throughputs("none", 180, measured=0.8),
        throughputs("conscious", 60, measured=0.9),
    ]
    (axes,) = throughput(rows, 900).axes
    drawn = [[tuple(map(list, line.get_data()))] for line in axes.lines if len(line.get_xdata())]
    assert [([0.1, 0.25], [0.8, 0.5])] in drawn
    assert [([0.25], [0.6])] in drawn and [([0.25], [0.9])] in drawn
    assert throughput([SimpleNamespace(sides={}, measured=None, simulated=None)], 900) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy, how",
    [("gang", "warning"), ("gang", "activations"), ("none", "conscious")],
)
def test_real_ranks_finish_under_each_remedy(policy, how):
    options = {"quantum_ms": 5, "synchronised": False} if policy == "gang" else {}
    sections = {"granularity_us": 47, "section_us": 20, "phases": 800}
    result = run_workload(workload(policy, options=options, remedy=Remedy(how), **sections))
    assert [job.failure for job in result.jobs] == ["", ""]

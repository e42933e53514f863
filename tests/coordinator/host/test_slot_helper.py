"""Changes of slot in C: real processes, a switcher with the helper and without it, an agent without it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import eventually, spawned, state, workload
from slots_of_jobs import switching

from coordinator.drive.driver import run_workload
from coordinator.host.mechanisms import CLASS, FAMILY, SIGNAL, WRITE, Order, known
from coordinator.host.priority import levels, prompt
from coordinator.host.processes import Process, is_launcher
from coordinator.host.slot_helper import ROOM, SlotHelper, SlotNote
from coordinator.wire.protocol import Table

MS = 1_000_000
FOREVER_NS = 1 << 62


@pytest.fixture
def sleepers():
    with spawned("sleep", "60") as one, spawned("sleep", "60") as other:
        other.send_signal(signal.SIGSTOP)
        assert eventually(lambda: state(other.pid) == "T")
        yield [Process(one.pid), Process(other.pid)]


def turns(processes):
    """The orders of two slots in which two processes of one processor take turns."""

    def send(process, signum):
        return Order(SIGNAL, process.fileno(), process.pid, signum)

    first, second = processes
    return [
        {0: [send(second, signal.SIGSTOP), send(first, signal.SIGCONT)]},
        {0: [send(first, signal.SIGSTOP), send(second, signal.SIGCONT)]},
    ]


@pytest.fixture
def never():
    descriptor = os.eventfd(0)
    yield descriptor
    os.close(descriptor)


def carried_out(helper, orders, never):
    """The notes of one slot of these orders, which begins at once."""
    helper.load([10**9], [{0: orders}])
    end_ns = time.monotonic_ns()
    notes, _, _ = helper.run(0, end_ns, never, end_ns + MS)
    return notes


def test_processes_take_turns_on_time_until_the_end_that_was_given(sleepers, never):
    helper = SlotHelper()
    helper.load([15 * MS, 10 * MS], turns(sleepers))
    notes = []
    while not notes:  # a busy host may keep this process from its processor for a whole slot
        begin_ns = time.monotonic_ns() + 5 * MS
        notes, slot, end_ns = helper.run(0, begin_ns, never, begin_ns + 40 * MS)
    dues = [note.due_ns - begin_ns for note in notes]
    assert dues == [0, 10 * MS, 25 * MS, 35 * MS][: len(dues)]
    assert [note.slot for note in notes] == [1, 0, 1, 0][: len(notes)]
    assert all(note.due_ns <= note.first_ns <= note.last_ns for note in notes)
    assert (slot, end_ns) == (notes[-1].slot, notes[-1].due_ns + (10 if slot else 15) * MS)
    assert eventually(lambda: [state(one.pid) for one in sleepers] == (["T", "S"] if slot else ["S", "T"]))


@pytest.mark.parametrize(
    "event, length_ns, ends_ns", [(True, 10**12, 10**12), (False, MS, -MS)], ids=["event", "over"]
)
def test_an_event_and_a_slot_that_is_over_end_the_call_at_once(event, length_ns, ends_ns, sleepers):
    helper, (ours, theirs) = SlotHelper(), socket.socketpair()
    helper.load([length_ns, length_ns], turns(sleepers))
    if event:
        theirs.send(b"x")
    end_ns = time.monotonic_ns() + ends_ns
    assert helper.run(0, end_ns, ours.fileno(), FOREVER_NS) == ([], 0, end_ns)


def test_notes_without_room_end_the_call(never):
    helper = SlotHelper()
    me = Process(os.getpid())
    helper.load([200_000], [{0: [Order(SIGNAL, me.fileno(), me.pid, 0)]}])
    found = []
    while len(found) < ROOM:  # some slots may be missed, and then the caller must go on
        notes, _, _ = helper.run(0, time.monotonic_ns() + 200_000, never, FOREVER_NS)
        assert len(notes) <= ROOM
        found += notes


def test_processes_that_have_ended_need_no_orders_and_other_failures_are_told(never):
    helper = SlotHelper()
    child = subprocess.Popen(["true"])
    gone = Process(child.pid)
    child.wait()
    for order in (
        Order(SIGNAL, gone.fileno(), gone.pid, signal.SIGSTOP),
        Order(CLASS, gone.fileno(), gone.pid, 0),
    ):
        assert len(carried_out(helper, [order], never)) == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        carried_out(helper, [Order(WRITE, -1, gone.pid, ord("1"))], never)


def test_a_family_gets_the_signal_down_to_the_last_descendant(never):
    """Children of a shell and of a thread, and more of them than fit into one read."""
    program = """
import subprocess, sys, threading, time
shell = "sleep 60 & sh -c 'sleep 60 & wait' & wait"
threading.Thread(target=subprocess.run, args=(["sh", "-c", shell],)).start()
others = [subprocess.Popen(["sleep", "60"]) for _ in range(40)]
time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    helper = SlotHelper()
    parent = Process(child.pid)
    parent.family = True
    mechanism = known()["signals"](None)
    try:
        assert eventually(lambda: len(members(child.pid)) == 1 + 40 + 1 + 1 + 1 + 1)
        for run, wanted in ((False, {"T"}), (True, {"S"})):
            order = mechanism.order(parent, run)
            assert order.kind == FAMILY
            carried_out(helper, [order], never)
            assert eventually(lambda wanted=wanted: {state(pid) for pid in members(child.pid)} == wanted)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@pytest.mark.parametrize("by_helper", [True, False])
def test_launchers_get_no_signal_but_what_they_have_started_does(never, tmp_path, by_helper):
    """Open MPI's would tell each signal that it passes on."""
    launcher = tmp_path / "mpirun.x"
    proxy = tmp_path / "hydra_pmi_proxy"
    for one in (launcher, proxy):
        shutil.copy("/bin/sh", one)
    words = [launcher, "-c", f"{proxy} -c 'sleep 60 & wait' & sleep 60 & wait"]
    child = subprocess.Popen(words, start_new_session=True)
    helper = SlotHelper()
    mechanism = known()["signals"](None)
    root = Process(child.pid)
    root.family = True
    try:
        assert eventually(lambda: len(members(child.pid)) == 4)
        assert eventually(lambda: sum(map(is_launcher, members(child.pid))) == 2)
        spared = {pid for pid in members(child.pid) if is_launcher(pid)}
        for run, wanted in ((False, "T"), (True, "S")):
            if by_helper:
                carried_out(helper, [mechanism.order(root, run)], never)
            else:
                (mechanism.run if run else mechanism.hold)(root)
            others = set(members(child.pid)) - spared
            assert eventually(lambda wanted=wanted, others=others: {state(pid) for pid in others} == {wanted})
            # What they have started tells them that it has stopped: they run for an instant. One that is
            # stopped stays so.
            assert eventually(lambda: {state(pid) for pid in spared} == {"S"})
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def members(session):
    pids = []
    for pid in psutil.pids():
        with suppress(OSError):
            pids += [pid] if os.getsid(pid) == session else []
    return pids


def test_a_letter_goes_to_the_file_and_a_class_to_the_process(tmp_path, sleepers, never):
    helper = SlotHelper()
    file = os.open(tmp_path / "switch", os.O_RDWR | os.O_CREAT)
    granted = levels()
    orders = [Order(WRITE, file, 0, ord("1"))]
    if granted:
        orders.append(Order(CLASS, sleepers[0].fileno(), sleepers[0].pid, granted.ranks))
    carried_out(helper, orders, never)
    assert os.pread(file, 9, 0) == b"1"
    assert not granted or os.sched_getscheduler(sleepers[0].pid) == os.SCHED_RR
    os.close(file)


def test_after_every_call_all_processors_are_in_one_slot(tmp_path, never):
    """Threads on two cores and one without a core write the letter of each slot to a file of their own."""
    helper = SlotHelper()
    helper.cores = tuple(sorted(os.sched_getaffinity(0))[:2])
    files = [os.open(tmp_path / str(processor), os.O_RDWR | os.O_CREAT) for processor in range(3)]
    letters = b"ABCD"
    helper.load([100_000] * 4, [{p: [Order(WRITE, f, 0, x)] for p, f in enumerate(files)} for x in letters])
    slot = 0
    due_ns = 0
    count = 0
    for number in range(300):
        now_ns = time.monotonic_ns()
        begin_ns = due_ns if due_ns + 50_000 > now_ns else now_ns + 50_000
        before = slot
        notes, slot, due_ns = helper.run(slot, begin_ns, never, begin_ns + number % 17 * 25_000)
        assert due_ns == begin_ns + len(notes) * 100_000 and slot == (before + len(notes)) % 4
        assert all(note.due_ns <= note.first_ns <= note.last_ns for note in notes)
        count += len(notes)
        states = [os.pread(file, 1, 0) for file in files]
        assert states == [letters[slot : slot + 1] if count else b""] * 3
    assert count, "not one slot has ended in time"
    for file in files:
        os.close(file)


def test_threads_have_their_priority_and_core_before_they_run(sleepers):
    """Among realtime ranks a thread of lower priority would not run for long."""
    granted = levels()
    if not granted:
        pytest.skip("this user has no realtime priorities")
    before = set(Path("/proc/self/task").iterdir())
    helper = SlotHelper()
    core = max(os.sched_getaffinity(0))
    helper.cores = (core,)
    with prompt():
        helper.load([MS, MS], turns(sleepers))
        (task,) = set(Path("/proc/self/task").iterdir()) - before
        thread = int(task.name)
        assert os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
        assert os.sched_getparam(thread).sched_priority >= granted.control
        assert os.sched_getaffinity(thread) == {core}


@dataclass
class Book:
    """A mechanism that keeps the state of each process; whose orders are of no use is in ``families``."""

    states: dict[str, str] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)

    def adopt(self, process, job, rank):
        self.states[process] = "free"

    def drop(self, process):
        del self.states[process]

    def hold(self, process):
        self.states[process] = "held"

    def run(self, process):
        self.states[process] = "runs"

    def free(self, process):
        self.states[process] = "free"

    def order(self, process, run):
        return None if process in self.families else (process, "runs" if run else "held")


class Clerk:
    """A helper that carries ``due`` slots out, on a book, in each call."""

    def __init__(self, book):
        self.book = book
        self.due = 1

    def load(self, lengths_ns, orders):
        self.lengths_ns = lengths_ns
        self.orders = orders

    def run(self, current, end_ns, descriptor, until_ns):
        notes = []
        for _ in range(self.due):
            current = (current + 1) % len(self.orders)
            for process, order_text in (order for one in self.orders[current].values() for order in one):
                assert self.book.states[process] != order_text, "an order that changes nothing"
                self.book.states[process] = order_text
            notes += [SlotNote(current, end_ns, end_ns + 1, end_ns + 3)] if self.orders[current] else []
            end_ns += self.lengths_ns[current]
        return notes, current, end_ns


@given(
    slots=st.lists(
        st.tuples(st.integers(1, 9), st.lists(st.sets(st.integers(0, 2)), min_size=2, max_size=2)),
        min_size=2,
        max_size=5,
    ),
    steps=st.lists(st.integers(1, 7), min_size=1, max_size=5),
)
def test_a_switcher_with_a_helper_does_what_it_does_alone(slots, steps):
    """Job 2 has no place: it stays free."""
    runs = tuple(tuple(tuple(sorted(jobs)) for jobs in slot) for _, slot in slots)
    places = tuple((job, rank, rank) for job in range(2) for rank in range(2))
    table = Table(0, 0, True, tuple(length for length, _ in slots), runs, places)
    alone = Book()
    helped = Book()
    plain, clock = switching(alone, 3)
    clerk = Clerk(helped)
    ours, _ = switching(helped, 3, helper=clerk)
    for one in (plain, ours):
        one.publish(table)
        one.switch(0)
    assert not plain.ready()
    for step in steps:
        assert ours.ready()
        clerk.due = step
        due_ns = ours.due_ns()
        told = [(s.slot, s.due_ns) for s in ours.run_ahead(due_ns + 1000, 0, 0)]  # a clock that is 1000 ahead
        expected = []
        for _ in range(step):
            clock[0] = plain.due_ns() or 0
            change = plain.switch(clock[0])
            expected += [(change.slot, change.due_ns)] if change else []
        assert (told, ours.due_ns(), helped.states) == (expected, plain.due_ns(), alone.states)
        assert all(ours.holds(job, rank) == plain.holds(job, rank) for job in range(3) for rank in range(2))


def test_whatever_must_be_looked_up_is_left_to_python():
    book = Book()
    switcher, _ = switching(book, processors=1, helper=Clerk(book))
    gang = ((0,),), ((1,),)
    places = (0, 0, 0), (1, 0, 0)
    assert not switcher.ready()
    switcher.publish(Table(0, 0, True, (10, None), gang, places))
    switcher.switch(0)
    assert not switcher.ready(), "an endless slot"
    switcher.publish(Table(1, 1, False, (10, 10), gang, places))
    switcher.switch(1)
    assert not switcher.ready(), "a table that does not start over"
    switcher.publish(Table(2, 2, True, (10, 10), gang, places))
    assert not switcher.ready(), "another table is coming"
    switcher.switch(2)
    assert switcher.ready()
    book.families = {"1.0"}
    assert switcher.ready()
    switcher.forget()
    assert not switcher.ready(), "a process with descendants"


def test_where_no_thread_can_be_started_slots_change_in_python(monkeypatch):
    book = Book()
    clerk = Clerk(book)
    switcher, _ = switching(book, processors=1, helper=clerk)

    def refuse(*given):
        raise BlockingIOError

    monkeypatch.setattr(clerk, "load", refuse)
    switcher.publish(Table(0, 0, True, (10, 10), (((0,),), ((1,),)), ((0, 0, 0), (1, 0, 0))))
    switcher.switch(0)
    assert not switcher.ready()
    switcher.switch(10)
    assert book.states == {"0.0": "held", "1.0": "runs"}


@pytest.mark.slow
@pytest.mark.parametrize("path, how", [("", "in C"), (str(Path(sys.executable).parent), "in Python")])
def test_without_a_compiler_an_agent_changes_slots_in_python(path, how, tmp_path, monkeypatch):
    if path:
        monkeypatch.setenv("PATH", path)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    work = workload("gang", phases=500, options={"quantum_ms": 5}, mechanism="signals")
    result = run_workload(work)
    assert (result.failure, [job.failure for job in result.jobs]) == ("", ["", ""])
    assert len(result.switches) > 5
    assert result.nodes[0].priority.endswith(how)

"""Critical sections: processes of a job wait for its locks, enter, and leave.

A lock passes through memory, so it takes no message and no time. A ticket or MCS lock goes to whoever has
waited longest, whether it runs, is preempted or sleeps. A test-and-test-and-set lock goes to whoever sees
first that it is free: of the processes that spin on a processor at this moment the one that has waited
longest, else the next that gets a processor or asks for the lock. Its release wakes one sleeper, unless one
that was woken before has not run since; a woken process that finds the lock taken sleeps again, behind the
others.

The same locks on real ranks: ``workloads/locks/lock.c``.
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.alarms import wake
from harness.simulator.processes.events import set_activity
from harness.simulator.processes.messages import read_limit, waiting_rule
from harness.simulator.processes.model import (
    BLOCKED,
    COMPUTING,
    LOCKING,
    LOCKS,
    NEVER_NS,
    NOBODY,
    REFILL_ONE,
    RUNNING,
    SECTION,
    SYNCHRONIZING,
    Records,
    State,
)
from harness.simulator.processes.processor import charge
from workloads.locks.lock_program import TEST_AND_SET


@hot
def lock_of(state: State, q: int) -> int:
    """The lock that process ``q`` needs in its phase."""
    process = state.processes[q]
    number: int = state.lock_numbers[process.phase & (len(state.lock_numbers) - 1), q]
    return int(state.jobs[process.job].locks_at + number)


@step
def ask_for_times(state: State, q: int) -> None:
    """Ask for compute times when process ``q`` begins the second half of those that are drawn for it.

    Without barriers one process can be any number of phases ahead of another.
    """
    process = state.processes[q]
    job = state.jobs[process.job]
    if process.phase + 1 + len(state.compute_ns) // 2 >= process.drawn and process.drawn < job.phases:
        state.clock[0].status = REFILL_ONE
        state.clock[0].subject = q


@step
def request(state: State, p: int, q: int) -> bool:
    """Running process ``q`` asks for the lock of its phase; False if it has to wait."""
    process = state.processes[q]
    job = state.jobs[process.job]
    process.activity = LOCKING
    process.blocked = 0
    process.wait_began_ns = state.clock[0].now_ns
    process.remaining_ns = min(read_limit(waiting_rule(job)), NEVER_NS)
    process.spin_end_ns = process.wait_began_ns + process.remaining_ns
    lock = state.locks[lock_of(state, q)]
    if lock.owner == NOBODY:
        lock.owner = q
        enter_section(state, p, q)
        return True
    charge(state, p, SYNCHRONIZING)
    line_up(state, lock, q)
    return False


@step
def enter_section(state: State, p: int, q: int) -> None:
    """Running process ``q`` has its lock: count the wait, and begin the section."""
    process = state.processes[q]
    waits = state.waits[process.job, LOCKS, process.blocked]
    waits[0] += 1
    waits[1] += state.clock[0].now_ns - process.wait_began_ns
    process.replied = 0
    process.activity = SECTION
    process.remaining_ns = state.jobs[process.job].section_ns
    charge(state, p, COMPUTING)
    set_activity(state, p, process.remaining_ns)


@step
def take_if_free(state: State, q: int) -> None:
    """Process ``q``, which waits for a lock, has got a processor: it takes the lock if that is free."""
    process = state.processes[q]
    lock = state.locks[lock_of(state, q)]
    if lock.owner == NOBODY:
        step_out(state, lock, q)
        lock.owner = q
        process.replied = 1
    elif state.jobs[process.job].lock == TEST_AND_SET and process.kernel:
        step_out(state, lock, q)
        line_up(state, lock, q)


@step
def release(state: State, number: int, kind: int) -> None:
    """Give lock ``number`` to the next."""
    lock = state.locks[number]
    lock.owner = NOBODY
    q = lock.first
    while kind == TEST_AND_SET and q != NOBODY and state.processes[q].state != RUNNING:
        q = state.processes[q].next_waiter
    if q != NOBODY:
        step_out(state, lock, q)
        lock.owner = q
        process = state.processes[q]
        if process.state == RUNNING:
            enter_section(state, process.processor, q)
        else:
            process.replied = 1
            if process.state == BLOCKED:
                wake(state, q)
    if kind == TEST_AND_SET and not someone_awakes(state, lock):
        q = lock.first
        while q != NOBODY and state.processes[q].state != BLOCKED:
            q = state.processes[q].next_waiter
        if q != NOBODY:
            wake(state, q)


@hot
def someone_awakes(state: State, lock: Records) -> bool:
    """Whether a process that waits for ``lock`` has been woken and has not run since."""
    q = lock.first
    while q != NOBODY:
        if state.processes[q].kernel:
            return True
        q = state.processes[q].next_waiter
    return False


@hot
def line_up(state: State, lock: Records, q: int) -> None:
    """Process ``q`` waits for ``lock`` behind all others."""
    state.processes[q].next_waiter = NOBODY
    if lock.first == NOBODY:
        lock.first = q
    else:
        state.processes[lock.last].next_waiter = q
    lock.last = q


@step
def step_out(state: State, lock: Records, q: int) -> None:
    """Process ``q`` does not wait for ``lock`` any more."""
    before = NOBODY
    at = lock.first
    while at != q:
        before = at
        at = state.processes[at].next_waiter
    after = state.processes[q].next_waiter
    if before == NOBODY:
        lock.first = after
    else:
        state.processes[before].next_waiter = after
    if lock.last == q:
        lock.last = before

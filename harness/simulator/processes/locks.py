"""Critical sections: processes of a job wait for its locks, enter, and leave.

A lock passes through memory, so it takes no message and no time. A ticket or MCS lock goes to the process
that has waited longest, whether it runs, is preempted or sleeps. A test-and-test-and-set lock goes to the
first that sees that it is free: of the processes that spin on a processor at this moment the one that has
waited longest, else the next that gets a processor or asks for the lock. Its release wakes one sleeper,
unless one that was woken before has not run since; a woken process that finds the lock taken sleeps again,
behind the others.

Under scheduler-conscious waiting (below) every lock goes to the running process that has waited longest; if
none runs, it is free, and one sleeper wakes. The two-minute warning keeps processes from asking.

The same locks on real ranks: ``workloads/locks/lock.c``.

The two-minute warning: a process that is about to lose its processor enters no critical section any more.

A process knows when its slot ends, if it does not run in the next one. ``warning_ns`` before that it stops
asking for locks, and spins until it runs again in a later slot; those that have asked before enter as usual.
The same on real ranks: ``await_slot`` of ``workloads/locks/lock.c``.

Source: Marsh, Scott, LeBlanc, Markatos, "First-Class User-Level Threads", 1991 (Psyche).

Processes that spin for a lock check its holder: scheduler-conscious waiting, and inheritance.

A check, ``holder_check_ns`` after the wait began and after each time as long, takes no time. If the holder
does not run, then under scheduler-conscious waiting the process sleeps until it gets the lock; under priority
inheritance the holder runs before all others of its processor until it leaves its section. For a holder on
its own processor, a process sleeps. The spin limit counts wall-clock time here.

The same on real ranks: ``workloads/locks/lock.c``. Sources: Kontothanassis, Wisniewski, Scott,
"Scheduler-Conscious Synchronization", 1997; Sha, Rajkumar, Lehoczky, "Priority Inheritance Protocols", 1990.
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes import model as m
from harness.simulator.processes.alarms import wake
from harness.simulator.processes.events import set_activity, spin_until_look
from harness.simulator.processes.messages import count_wait, operation_of, read_limit, waiting_rule
from harness.simulator.processes.model import Records, State
from harness.simulator.processes.processor import block, charge, compute, reconsider
from harness.simulator.processes.remedies import activate, part
from workloads.locks.lock_program import TEST_AND_SET


@step
def warned(state: State, q: int) -> bool:
    """Whether the slots are about to take process ``q``'s processor."""
    clock = state.clock[0]
    if clock.slot_end_ns - clock.now_ns >= state.machine[0].warning_ns:
        return False
    following = clock.slot + 1
    if following == len(state.slots):
        if not clock.cyclic:
            return False
        following = 0
    return bool(state.slots[following, q] == 0)


@step
def request(state: State, p: int, q: int, number: int) -> bool:
    """Running process ``q`` asks for lock ``number``; False if it has to wait."""
    process = state.processes[q]
    process.activity = m.LOCKING
    process.target = number
    process.blocked = 0
    process.wait_began_ns = state.clock[0].now_ns
    if state.machine[0].warning_ns > 0 and warned(state, q):
        process.deferred = 1
        process.remaining_ns = process.spin_end_ns = m.NEVER_NS
    elif takes(state, q):
        enter_section(state, p, q)
        return True
    charge(state, p, m.SYNCHRONIZING)
    return False


@step
def takes(state: State, q: int) -> bool:
    """Process ``q`` takes its lock if nobody has it, else it gets in line, and its limit begins."""
    process = state.processes[q]
    process.deferred = 0
    process.remaining_ns = min(read_limit(waiting_rule(state.jobs[process.job])), m.NEVER_NS)
    process.spin_end_ns = state.clock[0].now_ns + process.remaining_ns
    lock = state.locks[state.processes[q].target]
    if lock.owner == m.NOBODY:
        lock.owner = q
        return True
    line_up(state, lock, q)
    return False


@step
def end_warnings(state: State) -> None:
    """A slot has begun: a process that deferred its request and runs on asks for its lock now."""
    for q in range(len(state.processes)):
        process = state.processes[q]
        if not process.deferred or process.state != m.RUNNING or warned(state, q):
            continue
        p = process.processor
        if takes(state, q):
            enter_section(state, p, q)
        elif process.remaining_ns > 0:
            set_activity(state, p, process.remaining_ns)
        else:
            block(state, p)


@step
def enter_section(state: State, p: int, q: int) -> None:
    """Running process ``q`` has its lock: count the wait, and begin the section."""
    process = state.processes[q]
    count_wait(state, process)
    process.replied = 0
    process.activity = m.SECTION
    process.remaining_ns = operation_of(state, q).value
    compute(state, p, process)


@step
def take_if_free(state: State, q: int) -> None:
    """Process ``q``, which waits for a lock, has got a processor: it takes the lock if that is free."""
    process = state.processes[q]
    lock = state.locks[state.processes[q].target]
    if process.deferred:
        if not warned(state, q) and takes(state, q):
            process.replied = 1
    elif lock.owner == m.NOBODY:
        step_out(state, lock, q)
        lock.owner = q
        process.replied = 1
    elif lock.kind == TEST_AND_SET and process.kernel:
        step_out(state, lock, q)
        line_up(state, lock, q)


@step
def wait_for_holder(state: State, p: int, q: int) -> None:
    """Running process ``q`` waits for its lock, but not before a holder that is stopped has run on.

    If that is in the place of ``q``, it waits so long even if its limit has run out.
    """
    left_ns = max(0, state.processes[q].remaining_ns)
    set_activity(state, p, left_ns)
    if activate(state, state.locks[state.processes[q].target].owner) != p and left_ns == 0:
        block(state, p)


@step
def release(state: State, number: int) -> None:
    """Give lock ``number`` to the next."""
    lock = state.locks[number]
    lock.owner = m.NOBODY
    chooses = lock.kind == TEST_AND_SET or state.machine[0].conscious > 0
    q = first_waiter(state, lock, m.RUNNING) if chooses else lock.first
    if q != m.NOBODY:
        step_out(state, lock, q)
        lock.owner = q
        process = state.processes[q]
        if process.state == m.RUNNING:
            enter_section(state, process.processor, q)
        else:
            process.replied = 1
            if process.state == m.BLOCKED:
                wake(state, q)
            if state.machine[0].activations:
                activate(state, q)
    wakes = lock.kind == TEST_AND_SET or (chooses and q == m.NOBODY)
    sleeper = first_waiter(state, lock, m.BLOCKED)
    if wakes and sleeper != m.NOBODY and not someone_awakes(state, lock):
        wake(state, sleeper)


@step
def first_waiter(state: State, lock: Records, its_state: int) -> int:
    """The process in ``its_state`` that has waited longest for ``lock``, or NOBODY."""
    q = lock.first
    while q != m.NOBODY and state.processes[q].state != its_state:
        q = state.processes[q].next_waiter
    return int(q)


@step
def end_activation(state: State, p: int) -> None:
    """If it is time, the process activated on ``p`` leaves its section, unless it has a processor."""
    if state.processors[p].activation_end_ns > state.clock[0].now_ns:
        return
    q = part(state, p)
    process = state.processes[q]
    if process.state == m.READY and process.activity == m.SECTION:
        process.cpu_ns += process.remaining_ns
        process.remaining_ns = 0
        process.has_left = 1
        release(state, process.target)


@hot
def someone_awakes(state: State, lock: Records) -> bool:
    """Whether a process that waits for ``lock`` has been woken and has not run since."""
    q = lock.first
    while q != m.NOBODY:
        if state.processes[q].kernel:
            return True
        q = state.processes[q].next_waiter
    return False


@hot
def line_up(state: State, lock: Records, q: int) -> None:
    """Process ``q`` waits for ``lock`` behind all others."""
    state.processes[q].next_waiter = m.NOBODY
    if lock.first == m.NOBODY:
        lock.first = q
    else:
        state.processes[lock.last].next_waiter = q
    lock.last = q


@step
def step_out(state: State, lock: Records, q: int) -> None:
    """Process ``q`` does not wait for ``lock`` any more."""
    before = m.NOBODY
    at = lock.first
    while at != q:
        before = at
        at = state.processes[at].next_waiter
    after = state.processes[q].next_waiter
    if before == m.NOBODY:
        lock.first = after
    else:
        state.processes[before].next_waiter = after
    if lock.last == q:
        lock.last = before


@step
def check_holder(state: State, p: int, q: int) -> None:
    """Running process ``q`` looks after the holder of the lock that it spins for."""
    owner = state.locks[state.processes[q].target].owner
    holder = state.processes[owner]
    if owner != m.NOBODY and holder.state != m.RUNNING:
        if not state.machine[0].inheritance or holder.processor == p:
            block(state, p)
            return
        if holder.state == m.READY:
            holder.inherits = 1
            reconsider(state, holder.processor)
    spin_until_look(state, p, state.processes[q], state.machine[0].holder_check_ns)

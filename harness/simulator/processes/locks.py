"""Critical sections: processes of a job wait for its locks, enter, and leave; the remedy if one is preempted.

A lock passes through memory, so it takes no message and no time. A ticket or MCS lock goes to the process
that has waited longest, whether it runs, is preempted or sleeps. A test-and-test-and-set lock goes to the
first that sees that it is free: of the processes that spin on a processor at this moment the one that has
waited longest, else the next that gets a processor or asks for the lock. Its release wakes one sleeper,
unless one that was woken before has not run since; a woken process that finds the lock taken sleeps again,
behind the others. The same locks on real ranks: ``workloads/locks/lock.c``.

*Scheduler-conscious waiting and priority inheritance.* Processes that spin for a lock check its holder. A
check, ``holder_check_ns`` after the wait began and after each time as long, takes no time. If the holder does
not run, then under scheduler-conscious waiting the process sleeps until it gets the lock; under priority
inheritance the holder runs before all others of its processor until it leaves its section. For a holder on
its own processor, a process sleeps. The spin limit counts wall-clock time here. Under scheduler-conscious
waiting every lock goes to the running process that has waited longest; if none runs, it is free, and one
sleeper wakes. The same on real ranks: ``workloads/locks/lock.c``.

*The two-minute warning.* A process knows when its slot ends, if it does not run in the next one.
``warning_ns`` before that it stops asking for locks, and spins until it runs again in a later slot; those
that have asked before enter as usual. The same on real ranks: ``await_slot`` of ``workloads/locks/lock.c``.

*The do-not-preempt bit.* A change of slot waits on processors whose process is in a critical section. The bit
is up from the moment at which a process asks for a lock until it leaves the section, but not while it sleeps.
Each processor looks again after ``deferral_ns``, at most ``deferrals`` times; the slot before stays in force
there meanwhile. The same on real ranks: ``coordinator.node.section_remedies``.

*Scheduler activations.* A holder that the slots have stopped runs on in the place of another of its job. When
a slot begins, when a stopped process is handed a lock, and when a process that has a processor begins to wait
for a stopped one, or continues with it, the first process of its job that runs gives its processor to the
holder: for a context switch, the rest of the section, and a switch back. This is like a detour
(``processor``): it prolongs what the host of it does, and does not delay what ends a wait. The holder is then
stopped again, outside of its section. The same on real ranks: ``coordinator.node.section_remedies``.

Sources: Kontothanassis, Wisniewski, Scott, "Scheduler-Conscious Synchronization", 1997; Sha, Rajkumar,
Lehoczky, "Priority Inheritance Protocols", 1990; Marsh, Scott, LeBlanc, Markatos, "First-Class User-Level
Threads", 1991 (Psyche); Anderson, Bershad, Lazowska, Levy, "Scheduler Activations", 1992.
"""

from harness.simulator.compiled import step
from harness.simulator.processes import model as m
from harness.simulator.processes.costs import operation_of
from harness.simulator.processes.events import set_activity, set_alarm
from harness.simulator.processes.local import scheduler
from harness.simulator.processes.messages import count_wait, read_limit, waiting_rule
from harness.simulator.processes.model import Records, State
from harness.simulator.processes.processor import block, charge, compute, reconsider, wake
from workloads.locks.lock_program import TEST_AND_SET
from workloads.options import ACTIVATIONS, CONSCIOUS, INHERITANCE


@step
def warned(state: State, q: int) -> bool:
    """Whether the slots are about to take process ``q``'s processor."""
    if state.clock.slot_end_ns - state.clock.now_ns >= state.machine.warning_ns:
        return False
    following = state.clock.slot + 1
    if following == len(state.slots):
        if not state.clock.cyclic:
            return False
        following = 0
    return bool(state.slots[following, q] == 0)


@step
def request(state: State, p: int, q: int, number: int) -> bool:
    """Running process ``q`` asks for lock ``number``; False if it has to wait."""
    process = state.processes[q]
    process.activity = m.DEFERRED
    process.target = number
    process.wait_began_ns = state.clock.now_ns
    if state.machine.warning_ns > 0 and warned(state, q):
        process.remaining_ns = process.spin_end_ns = m.NEVER_NS
    elif takes(state, q):
        enter_section(state, p, q)
        return True
    charge(state, p, m.SYNCHRONIZING)
    return False


@step
def takes(state: State, q: int) -> bool:
    """Process ``q`` takes its lock if it is free, else it gets in line, and its limit begins."""
    process = state.processes[q]
    process.activity = m.LOCKING
    process.remaining_ns = min(read_limit(waiting_rule(state.jobs[process.job])), m.NEVER_NS)
    process.spin_end_ns = state.clock.now_ns + process.remaining_ns
    lock = state.locks[process.target]
    if lock.owner == m.NOBODY:
        lock.owner = q
        return True
    lock.tickets += 1
    process.ticket = lock.tickets
    return False


@step
def enter_section(state: State, p: int, q: int) -> None:
    """Running process ``q`` has its lock: count the wait, and begin the section."""
    begin_section(state, q)
    compute(state, p, state.processes[q])


@step
def begin_section(state: State, q: int) -> None:
    """Process ``q``, which has its lock, has waited so long, and its section is all before it."""
    process = state.processes[q]
    count_wait(state, process, m.LOCKS)
    process.blocked = 0
    process.activity = m.SECTION
    process.remaining_ns = operation_of(state, q).value


@step
def take_if_free(state: State, q: int) -> None:
    """Process ``q``, which waits for a lock, has got a processor: it takes the lock if that is free."""
    process = state.processes[q]
    lock = state.locks[process.target]
    if process.activity == m.DEFERRED:
        if not warned(state, q) and takes(state, q):
            process.activity = m.ANSWERED
    elif lock.owner == m.NOBODY:
        hand_over(state, lock, q)
    elif lock.kind == TEST_AND_SET and process.kernel:
        lock.tickets += 1
        process.ticket = lock.tickets  # behind all others


@step
def hand_over(state: State, lock: Records, q: int) -> None:
    """Process ``q`` has ``lock``, for which it waits no more."""
    lock.owner = q
    state.processes[q].activity = m.ANSWERED


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
    chooses = lock.kind == TEST_AND_SET or state.machine.remedy == CONSCIOUS
    q = first_waiter(state, number, m.RUNNING if chooses else m.ABSENT)
    if q != m.NOBODY:
        hand_over(state, lock, q)
        process = state.processes[q]
        if process.state == m.RUNNING:
            enter_section(state, process.processor, q)
        else:
            if process.state == m.BLOCKED:
                wake(state, q)
            if state.machine.remedy == ACTIVATIONS:
                activate(state, q)
    if lock.kind == TEST_AND_SET or (chooses and q == m.NOBODY):
        sleeper = first_waiter(state, number, m.BLOCKED)
        if sleeper != m.NOBODY and not someone_awakes(state, number):
            wake(state, sleeper)


@step
def stop_inheriting(state: State, p: int, q: int) -> None:
    """Process ``q`` has released its lock on processor ``p``, and has no inherited priority any more."""
    if state.processes[q].inherits:
        state.processes[q].inherits = 0
        reconsider(state, p, m.USUAL)


@step
def first_waiter(state: State, number: int, its_state: int) -> int:
    """The process that has waited longest for lock ``number`` in its state, ABSENT for any, or none."""
    found = m.NOBODY
    anywhere = its_state == m.ABSENT
    for q in range(len(state.processes)):
        process = state.processes[q]
        waits = process.activity == m.LOCKING and process.target == number
        if not waits or not (anywhere or process.state == its_state):
            continue
        if found == m.NOBODY or process.ticket < state.processes[found].ticket:
            found = q
    return found


@step
def someone_awakes(state: State, number: int) -> bool:
    """Whether a process that waits for lock ``number`` has been woken and has not run since."""
    for q in range(len(state.processes)):
        process = state.processes[q]
        if process.activity == m.LOCKING and process.target == number and process.kernel:
            return True
    return False


@step
def holder_has_stopped(state: State, p: int, q: int) -> bool:
    """Whether running process ``q``, which looks after the holder of its lock, has to sleep for it.

    A holder that is ready on another processor inherits its priority, and runs.
    """
    owner = state.locks[state.processes[q].target].owner
    if owner == m.NOBODY:
        return False
    holder = state.processes[owner]
    if holder.state == m.RUNNING:
        return False
    if state.machine.remedy != INHERITANCE or holder.processor == p:
        return True
    if holder.state == m.READY:
        holder.inherits = 1
        reconsider(state, holder.processor, m.USUAL)
    return False


@step
def put_off_slot(state: State, p: int, times: int) -> bool:
    """Whether the change of slot must still wait on processor ``p``, for which it may so many times more.

    It waits if the slot would stop a process in a section, or one that spins for a section.
    """
    processor = state.processors[p]
    q = processor.current
    waits = times > 0 and q != m.NOBODY and state.slots[state.clock.slot, q] == 0
    if waits:
        process = state.processes[q]
        waits = process.state == m.RUNNING and process.activity in (m.SECTION, m.LOCKING)
    processor.deferrals_left = times if waits else 0
    processor.deferral_ns = state.clock.now_ns + state.machine.deferral_ns if waits else state.clock.never_ns
    set_alarm(state, p)
    return waits


@step
def retry_slot(state: State, p: int) -> None:
    """Change the slot on processor ``p`` now, or put it off once more."""
    processor = state.processors[p]
    if put_off_slot(state, p, processor.deferrals_left - 1):
        return
    for k in range(processor.residents):
        q = state.residents[p, k]
        state.processes[q].allowed = state.slots[state.clock.slot, q]
    reconsider(state, p, m.NEW_SLOT)


@step
def host_of(state: State, q: int) -> int:
    """The processor of the first process of ``q``'s job that runs, without an activation; or none."""
    job = state.jobs[state.processes[q].job]
    for mate in range(job.first, job.first + job.processes):
        process = state.processes[mate]
        runs = process.state == m.RUNNING and process.allowed
        if runs and state.processors[process.processor].activated == m.NOBODY:
            return int(process.processor)
    return m.NOBODY


@step
def activate(state: State, q: int) -> int:
    """Process ``q``, if it is stopped with a lock that it has, runs on where its job does.

    Returns that processor, or none if no activation begins.
    """
    process = state.processes[q]
    if process.state != m.READY or process.allowed or process.is_activated:
        return m.NOBODY
    p = host_of(state, q)
    if p == m.NOBODY:
        return m.NOBODY
    if process.activity == m.ANSWERED:
        if process.kernel:
            process.kernel = 0
            scheduler.wake(state, process)
        begin_section(state, q)
    process.is_activated = 1
    processor = state.processors[p]
    length_ns = state.machine.context_switch_ns + process.remaining_ns
    processor.activated = q
    processor.activation_end_ns = state.clock.now_ns + length_ns
    length_ns += state.machine.context_switch_ns
    processor.charged_ns += length_ns
    state.processes[processor.current].dispatched_ns += length_ns
    set_activity(state, p, processor.activity_ns - state.clock.now_ns + length_ns)
    set_alarm(state, p)
    return p


@step
def end_activation(state: State, p: int) -> None:
    """If it is time, the process activated on ``p`` leaves its section, unless it has a processor."""
    if state.processors[p].activation_end_ns > state.clock.now_ns:
        return
    q = part(state, p)
    process = state.processes[q]
    if process.state == m.READY and process.activity == m.SECTION:
        process.cpu_ns += process.remaining_ns
        process.remaining_ns = 0
        process.activity = m.RELEASED
        release(state, process.target)


@step
def part(state: State, p: int) -> int:
    """The activation on processor ``p`` is over; returns the process."""
    processor = state.processors[p]
    q = int(processor.activated)
    processor.activated = m.NOBODY
    processor.activation_end_ns = state.clock.never_ns
    state.processes[q].is_activated = 0
    return q


@step
def call_off(state: State, q: int) -> None:
    """Process ``q`` has left its section on its own processor before its activation was over."""
    for p in range(len(state.processors)):
        if state.processors[p].activated == q:
            part(state, p)
            set_alarm(state, p)

"""How a running process executes its program, operation by operation, and how it waits.

``carry_out`` is the step machine: an event makes one process do an action, which says what it does next,
until something takes time. What a process does after a computation, a wait or a sleep is always its next
operation. It waits: it asks, spins, handles messages, blocks, and resumes; a reply completes the wait.

The processes of a job with a central queue of tasks share one ring of operations. A process at a task
that its job may not have, or cannot use, sleeps; so does one that has to move. A process that leaves, or
begins a phase of another parallelism, wakes those, and so does a decision that allots more processors. The
queue is in memory: it takes no message and no time. The same on real ranks: ``workloads/tasks.py``.
"""

from harness.simulator.compiled import hot, step
from harness.simulator.processes import locks, messages
from harness.simulator.processes import model as m
from harness.simulator.processes.coscheduling import look, observe
from harness.simulator.processes.costs import asks_itself, load_set, operation_of, overrun_ns, send_cost_ns
from harness.simulator.processes.events import send, set_activity
from harness.simulator.processes.local import scheduler
from harness.simulator.processes.model import Records, State
from harness.simulator.processes.processor import (
    begin_to_yield,
    block,
    compute,
    dispatch,
    gives_way,
    leave,
    preempt,
    sleep,
    wake,
)
from harness.simulator.processes.ready_queues import enqueue, move
from workloads.options import ACTIVATIONS

AFTER = (
    m.NEXT,  # STARTING
    m.NEXT,  # COMPUTE
    m.READ,  # GAP
    m.LEAVE,  # SECTION
    m.NEXT,  # RELEASED
    m.SPIN,  # READING
    m.SPIN,  # OPENING
    m.SPIN,  # CLOSING
    m.SPIN,  # LOCKING
    m.SPIN,  # DEFERRED
    m.DONE,  # SLEEPING
    m.DONE,  # SUSPENDED
    m.END_WAIT,  # ANSWERED
)
"""The next action when the time of an activity is over; who sleeps or is suspended takes none."""


@hot
def carry_out(state: State, action: int, p: int, q: int) -> None:
    """Let process ``q`` on processor ``p`` do ``action``, and whatever follows from it now.

    Each action says which one comes next. A lock is released last of all: a process woken by that may preempt
    this one.
    """
    lock = m.NOBODY
    while action != m.DONE:
        if action == m.NEXT:
            action = begin_operation(state, p, q)
        elif action == m.SPIN:
            action = spin(state, p, q)
        elif action == m.END_WAIT:
            action = end_wait(state, p, q)
        elif action == m.ASK:
            action = ask(state, p, q)
        elif action == m.START_WAIT:
            action = start_wait(state, p, q)
        elif action == m.READ:
            action = read(state, p, q)
        elif action == m.RESUME:
            action = resume(state, p, q)
        elif action == m.END_ACTIVITY:
            action = end_activity(state, p, q)
        elif action == m.TAKE_OVER:
            action = take_over(state, p, q)
        elif action == m.LEAVE:
            lock = leave_section(state, q)
            action = m.NEXT
    if lock != m.NOBODY:
        locks.release(state, lock)
        locks.stop_inheriting(state, p, q)


@hot
def begin_operation(state: State, p: int, q: int) -> int:
    """Begin the next read of the present operation, or else the next operation of the program."""
    process = state.processes[q]
    if process.reads > 0:
        return begin_read(state, p, q)
    columns = state.operations.shape[1]
    ring = state.processes[process.source]
    operation = state.operations[process.source, ring.at & (columns - 1)]
    if ring.filled - ring.at <= columns >> 1:
        state.clock.status = m.REFILL
        state.clock.subject = process.source
    code = operation.code
    if code == m.COMPUTE:
        ring.at += 1
        process.phase += operation.marks & m.PASSES
        begin_computation(state, p, q, operation, m.COMPUTE)
        if state.machine.observe_ns > 0:
            observe(state, q, operation)
        return m.DONE
    if code == m.READING:
        ring.at += 1
        process.reads = operation.peer
        return begin_read(state, p, q)
    if code <= m.CLOSING:
        ring.at += 1
        return m.ASK
    return begin_rare(state, p, q, operation)


@hot
def begin_read(state: State, p: int, q: int) -> int:
    state.processes[q].reads -= 1
    begin_computation(state, p, q, operation_of(state, q), m.GAP)
    return m.DONE


@hot
def begin_computation(state: State, p: int, q: int, operation: Records, activity: int) -> None:
    """Compute, with what chance adds; but not before a read, load the missing part of the working set."""
    process = state.processes[q]
    process.activity = activity
    process.remaining_ns = operation.value + overrun_ns(state, p, operation)
    if state.machine.cache_bytes > 0 and activity == m.COMPUTE:
        process.remaining_ns += process.cold_ns
        process.cold_ns = 0
    compute(state, p, process)


@step
def begin_rare(state: State, p: int, q: int, operation: Records) -> int:
    """Begin an operation that is not of a bulk-synchronous program."""
    process = state.processes[q]
    code = operation.code
    process.phase += operation.marks & m.PASSES
    if code in (m.END, m.TASK):
        if code == m.END:
            finish(state, p, q)
        else:
            reach_task(state, p, q, operation)
        return m.DONE
    state.processes[process.source].at += 1
    if code == m.SEND:
        messages.give(state, q, operation.peer)
    elif code == m.RECEIVE:
        return m.NEXT if messages.take(state, p, q, operation) else m.SPIN
    elif code == m.LEARN:
        messages.learn_longest(state, q)
    elif code == m.RESPOND:
        state.bursts_ns[operation.peer] = state.clock.now_ns - process.wait_began_ns
    elif code == m.LOCKING:
        return m.DONE if locks.request(state, p, q, operation.peer) else m.SPIN
    else:
        sleep(state, p, operation.value)
        return m.DONE
    return m.NEXT


@step
def finish(state: State, p: int, q: int) -> None:
    """Process ``q`` leaves for good; so does its job, if it was the last one."""
    index = state.processes[q].job
    job = state.jobs[index]
    leave(state, p, m.FINISHED)
    job.unfinished -= 1
    if job.unfinished == 0:
        job.finish_ns = state.clock.now_ns
        state.clock.status = m.DEPARTED
        state.clock.subject = index
    dispatch(state, p, m.USUAL)
    resume_suspended(state, index, job.processes)


@hot
def take_over(state: State, p: int, q: int) -> int:
    """The processor has switched: its process runs, unless a better one came up meanwhile."""
    process = state.processes[q]
    state.processors[p].switching = 0
    if gives_way(state, p, q):
        enqueue(state, q, True)
        dispatch(state, p, m.USUAL)
        return m.DONE
    process.state = m.RUNNING
    process.dispatched_ns = state.clock.now_ns
    if state.machine.cache_bytes > 0:
        load_set(state, p, q)
    if process.handling != m.FREE:
        messages.charge_messages(state, p, q)
        set_activity(state, p, process.handling_left_ns)
        return m.DONE
    return m.RESUME


@hot
def end_activity(state: State, p: int, q: int) -> int:
    """What took time is over: a computation, a section, the handling of a message, or a spin."""
    process = state.processes[q]
    if process.handling != m.FREE:
        return go_on_handling(state, p, q)
    if process.notice == messages.NOTICE_HERE:
        messages.read_notices(state, q)
    spins = AFTER[process.activity] == m.SPIN
    return end_spin(state, p, q) if spins else AFTER[process.activity]


@step
def leave_section(state: State, q: int) -> int:
    """The section is over: the next operation begins, then the lock is released."""
    process = state.processes[q]
    if process.is_activated:
        locks.call_off(state, q)
    return int(process.target)


@step
def reach_task(state: State, p: int, q: int, operation: Records) -> None:
    """Process ``q`` takes the next task, or sleeps; if it has to move only, it wakes at once elsewhere.

    Others learn it if the task is the first of another parallelism.
    """
    process = state.processes[q]
    job = state.jobs[process.job]
    may_run = process.rank < min(job.allotted, operation.peer)
    if not may_run or (process.home != p and state.machine.queue == m.BOUND):
        process.activity = m.SUSPENDED
        block(state, p)
        if may_run:
            resume_at_home(state, q)
        return
    state.processes[process.source].at += 1
    process.phase += 1
    begin_computation(state, p, q, operation, m.COMPUTE)
    if operation.peer != job.usable:
        job.usable = operation.peer
        state.clock.status = m.EVOLVED
        state.clock.subject = process.job
        resume_suspended(state, process.job, min(job.usable, job.allotted))


@step
def resume_deferred(state: State) -> None:
    """A slot has begun: a process that deferred its request for a lock and runs on asks for that now."""
    for q in range(len(state.processes)):
        process = state.processes[q]
        if process.activity == m.DEFERRED and process.state == m.RUNNING and not locks.warned(state, q):
            if locks.takes(state, q):
                locks.enter_section(state, process.processor, q)
            else:
                spin(state, process.processor, q)


@step
def resume_suspended(state: State, index: int, count: int) -> None:
    """Wake the suspended processes among the first ``count`` of job ``index``."""
    first = state.jobs[index].first
    for q in range(first, first + count):
        process = state.processes[q]
        if process.state == m.BLOCKED and process.activity == m.SUSPENDED:
            resume_at_home(state, q)


@step
def resume_at_home(state: State, q: int) -> None:
    """Wake suspended process ``q``, where it is to be."""
    process = state.processes[q]
    if state.machine.queue == m.BOUND and process.home != process.processor:
        process.delayed = 0  # it leaves the old queue, with its debt
        move(state, q, process.home)
    process.activity = m.ANSWERED
    wake(state, q)


@hot
def ask(state: State, p: int, q: int) -> int:
    """Send a read request, or an arrival at a barrier to the root, and wait for the reply."""
    process = state.processes[q]
    operation = operation_of(state, q)
    process.activity = operation.code
    process.target = state.jobs[process.job].first
    if operation.code == m.READING:
        process.target += state.partners[q, operation.peer - process.reads - 1]
    messages.charge_messages(state, p, q)
    return send_first(state, p, q) if state.machine.sends else m.START_WAIT


@step
def send_first(state: State, p: int, q: int) -> int:
    """Spend the time that it takes to send what process ``q`` asks."""
    cost_ns = send_cost_ns(state, p, q)
    if cost_ns == 0 and asks_itself(state, q):
        return m.START_WAIT
    state.processes[q].handling = m.SENDING
    set_activity(state, p, cost_ns)
    return m.DONE


@hot
def start_wait(state: State, p: int, q: int) -> int:
    """The request leaves; handle the messages that came meanwhile, then spin."""
    process = state.processes[q]
    process.wait_began_ns = state.clock.now_ns
    process.remaining_ns = messages.spin_limit(state.jobs[process.job], process)
    process.spin_end_ns = process.wait_began_ns + process.remaining_ns
    if not asks_itself(state, q):
        send(state, q << 1)
    elif process.activity == m.READING:
        process.activity = m.ANSWERED
    elif messages.take_arrival(state, q):
        messages.complete_barrier(state, q)
    if process.handling == m.BROADCASTING:
        set_activity(state, p, state.machine.send_ns)
        return m.DONE
    if process.inbox_first != m.NOBODY and not messages.handle_inbox(state, p, q):
        return m.DONE
    return m.SPIN


@hot
def spin(state: State, p: int, q: int) -> int:
    """Spin for the rest of the limit, or up to the next look after others; block if there is no rest."""
    process = state.processes[q]
    period_ns = look_period_ns(state, process)
    if process.activity == m.ANSWERED:
        set_activity(state, p, 0)
    elif process.activity == m.LOCKING and state.machine.remedy == ACTIVATIONS:
        locks.wait_for_holder(state, p, q)
    elif process.remaining_ns <= 0:
        block(state, p)
    else:
        spin_ns = process.remaining_ns
        if period_ns > 0:  # it looks after each period of its wait
            spin_ns = min(spin_ns, period_ns - (state.clock.now_ns - process.wait_began_ns) % period_ns)
        set_activity(state, p, spin_ns)
        if state.machine.yields:
            begin_to_yield(state, p)
    return m.DONE


@hot
def look_period_ns(state: State, process: Records) -> int:
    """How often the process looks after others in such a wait; 0 for never."""
    return int(state.machine.patience_ns if process.activity <= m.CLOSING else state.machine.holder_check_ns)


@hot
def end_wait(state: State, p: int, q: int) -> int:
    """The reply is there, or the lock, whose section begins."""
    if len(state.send_after_idle_ns) > 0:
        state.processes[q].wait_ended_ns = state.clock.now_ns
    if operation_of(state, q).code == m.LOCKING:
        locks.enter_section(state, p, q)
        return m.DONE
    state.processes[q].blocked = 0
    return m.NEXT


@step
def end_spin(state: State, p: int, q: int) -> int:
    """The process looks after others, or its limit has come."""
    process = state.processes[q]
    process.remaining_ns = process.spin_end_ns - state.clock.now_ns
    locking = process.activity > m.CLOSING
    if process.remaining_ns <= 0 or (locking and locks.holder_has_stopped(state, p, q)):
        block(state, p)
        return m.DONE
    if not locking:
        look(state, p, q)
    return m.SPIN


@hot
def read(state: State, p: int, q: int) -> int:
    """Serve the requests that came meanwhile, then read: who asked continues, and this process waits."""
    process = state.processes[q]
    if process.inbox_first != m.NOBODY:
        process.remaining_ns = 0
        if not messages.handle_inbox(state, p, q):
            return m.DONE
    return m.ASK


@step
def go_on_handling(state: State, p: int, q: int) -> int:
    """A piece of message handling that took time has ended."""
    process = state.processes[q]
    job = state.jobs[process.job]
    rings_ns = 0
    if process.handling == m.SENDING:
        process.handling = m.FREE
        return m.START_WAIT
    if process.handling == m.BROADCASTING:
        other = job.first + process.broadcast
        send(state, other << 1 | 1)
        if state.processes[other].state == m.BLOCKED:
            rings_ns = state.machine.wake_ns
        process.broadcast += 1
        if process.broadcast == job.processes:
            process.handling = m.FREE
    else:
        process.handling = m.FREE
        messages.handle(state, q, messages.first_in_inbox(state, process))
    if process.handling == m.BROADCASTING:
        set_activity(state, p, rings_ns + state.machine.send_ns)
        return m.DONE
    return m.RESUME


@hot
def resume(state: State, p: int, q: int) -> int:
    """Handle the messages that came, then sleep again, give way, or continue where the process was.

    An unblocked process gets a new user priority, and gives way to a process that ranks above it.
    """
    process = state.processes[q]
    if process.inbox_first != m.NOBODY and not messages.handle_inbox(state, p, q):
        return m.DONE
    if m.LOCKING <= process.activity <= m.DEFERRED:
        locks.take_if_free(state, q)
    if process.notice == messages.NOTICE_HERE and process.activity >= m.READING:
        messages.read_notices(state, q)
    if process.kernel:
        if process.activity != m.ANSWERED:
            block(state, p)
            return m.DONE
        process.kernel = 0
        scheduler.wake(state, process)
        if scheduler.outranked(state, p, q):
            preempt(state, p, True, m.USUAL)
            return m.DONE
    if process.activity in (m.STARTING, m.ANSWERED):
        return m.NEXT if process.activity == m.STARTING else m.END_WAIT
    if process.activity < m.READING:
        compute(state, p, process)
        return m.DONE
    messages.charge_messages(state, p, q)
    if state.machine.wall_clock_spin or look_period_ns(state, process) > 0:
        process.remaining_ns = process.spin_end_ns - state.clock.now_ns
    return m.SPIN


@hot
def receive(state: State, message: int) -> int:
    """``message`` arrives: a running process handles it now, any other when it runs next.

    The message wakes a blocked process; a ready one finds it when its turn comes. Returns the process whose
    wait is over by it, or none.
    """
    sender = state.processes[message >> 1]
    q = message >> 1
    if not message & 1:
        if sender.notice != messages.NO_NOTICE:
            receive_notice(state, q)
            return m.NOBODY
        q = sender.target
        if sender.activity == m.READING and state.jobs[sender.job].served_by_network:
            state.clock.messages += 1
            send(state, message | 1)
            return m.NOBODY
    process = state.processes[q]
    listens = process.state == m.RUNNING and (
        process.activity >= m.READING or not state.machine.handles_when_waiting
    )
    if listens and not state.jobs[process.job].message_costs:
        messages.handle(state, q, message)
        return q if process.activity == m.ANSWERED else m.NOBODY
    messages.put_in_inbox(state, q, message)
    if process.state == m.BLOCKED:
        wake(state, q)
    elif listens and process.handling == m.FREE:
        interrupt(state, q)
    return m.NOBODY


@step
def receive_notice(state: State, q: int) -> None:
    """The notice of a large message has come: process ``q`` reads it when it runs and waits in MPI.

    A blocked process wakes up for it. A recorded program that sleeps is in MPI's own begin or end, in which
    messages go.
    """
    process = state.processes[q]
    process.notice = messages.NOTICE_HERE
    waits = process.state == m.RUNNING and process.activity >= m.READING
    if waits or process.state == m.FINISHED or operation_of(state, q).code == m.SLEEPING:
        messages.read_notices(state, q)
    elif process.state == m.BLOCKED:
        wake(state, q)


@step
def interrupt(state: State, q: int) -> None:
    """Running process ``q`` puts its activity aside to handle a message, which takes time."""
    process = state.processes[q]
    p = process.processor
    process.remaining_ns = state.processors[p].activity_ns - state.clock.now_ns
    messages.handle_inbox(state, p, q)

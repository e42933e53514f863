"""How a running process carries out its program, operation by operation, and how it waits.

``carry_out`` is the step machine: an event makes one process do an action, which says what it does next,
until something takes time. What a process does after a computation, a wait or a sleep is always its next
operation. A wait ends by a reply, which sets ``replied``.

The processes of a job with a central queue of tasks share one ring of operations. A process at a task
that its job may not have, or cannot use, sleeps; so does one that has to move. A process that leaves, or
begins a phase of another parallelism, wakes those, and so does a decision that allots more processors. The
queue is in memory: it takes no message and no time. The same on real ranks: ``workloads/tasks.py``.
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes import messages, waits
from harness.simulator.processes import model as m
from harness.simulator.processes.alarms import sleep, wake
from harness.simulator.processes.coscheduling import observe
from harness.simulator.processes.costs import load_set, overrun_ns
from harness.simulator.processes.events import set_activity
from harness.simulator.processes.locks import release, request
from harness.simulator.processes.model import Records, State
from harness.simulator.processes.processor import (
    block,
    charge,
    compute,
    dispatch,
    gives_way,
    leave,
    reconsider,
)
from harness.simulator.processes.ready_queues import enqueue, move
from harness.simulator.processes.remedies import call_off


@hot
def carry_out(state: State, action: int, p: int, q: int) -> None:
    """Let process ``q`` on processor ``p`` do ``action``, and whatever follows from it now.

    Each action says which one comes next.
    """
    while action != m.DONE:
        if action == m.NEXT:
            action = begin_operation(state, p, q)
        elif action == m.SPIN:
            action = waits.spin(state, p, q)
        elif action == m.END_WAIT:
            action = waits.end_wait(state, p, q)
        elif action == m.ASK:
            action = waits.ask(state, p, q)
        elif action == m.START_WAIT:
            action = waits.start_wait(state, p, q)
        elif action == m.READ:
            action = waits.read(state, p, q)
        elif action == m.RESUME:
            action = waits.resume(state, p, q)
        elif action == m.END_ACTIVITY:
            action = end_activity(state, p, q)
        else:
            action = take_over(state, p, q)


@hot
def begin_operation(state: State, p: int, q: int) -> int:
    process = state.processes[q]
    if process.reads > 0:
        return begin_read(state, p, q)
    columns = state.operations.shape[1]
    ring = state.processes[process.source]
    operation = state.operations[process.source, ring.at & (columns - 1)]
    if ring.filled - ring.at <= columns >> 1:
        state.clock[0].status = m.REFILL
        state.clock[0].subject = process.source
    code = operation.code
    if code == m.COMPUTE:
        ring.at += 1
        process.phase += operation.marks & m.PASSES
        begin_computation(state, p, q, operation)
        if state.machine[0].observe_ns > 0:
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
    process = state.processes[q]
    operation = messages.operation_of(state, q)
    process.reads -= 1
    process.activity = m.GAP
    process.remaining_ns = operation.value + overrun_ns(state, p, operation)
    compute(state, p, process)
    return m.DONE


@hot
def begin_computation(state: State, p: int, q: int, operation: Records) -> None:
    """Compute, with what chance adds, and load the missing part of the working set."""
    process = state.processes[q]
    process.activity = m.COMPUTE
    process.remaining_ns = operation.value + overrun_ns(state, p, operation)
    if state.machine[0].cache_bytes > 0:
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
        state.bursts_ns[operation.peer] = state.clock[0].now_ns - process.wait_began_ns
    elif code == m.LOCKING:
        return m.DONE if request(state, p, q, operation.peer) else m.SPIN
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
        job.finish_ns = state.clock[0].now_ns
        state.clock[0].status = m.DEPARTED
        state.clock[0].subject = index
    dispatch(state, p)
    resume_suspended(state, index, job.processes)


@hot
def take_over(state: State, p: int, q: int) -> int:
    """Processor ``p`` has switched: its process runs, unless a better one came up meanwhile."""
    process = state.processes[q]
    state.processors[p].switching = 0
    if gives_way(state, p, q):
        enqueue(state, q, True)
        dispatch(state, p)
        return m.DONE
    process.state = m.RUNNING
    process.dispatched_ns = state.clock[0].now_ns
    if state.machine[0].cache_bytes > 0:
        load_set(state, p, q)
    if process.handling != m.FREE:
        charge(state, p, messages.message_category(process))
        set_activity(state, p, process.handling_left_ns)
        return m.DONE
    if process.inbox_first != m.NOBODY and not messages.handle_inbox(state, p, q):
        return m.DONE
    return m.RESUME


@hot
def end_activity(state: State, p: int, q: int) -> int:
    process = state.processes[q]
    if process.handling != m.FREE:
        return waits.go_on_handling(state, p, q)
    if process.activity >= m.READING:
        return waits.end_spin(state, p, q)
    if process.activity == m.GAP:
        return m.READ
    if process.activity == m.SECTION:
        leave_section(state, p, q)
        return m.DONE
    if process.notice == messages.NOTICE_HERE:
        messages.read_notices(state, q)
    return m.NEXT


@step
def leave_section(state: State, p: int, q: int) -> None:
    """Process ``q`` is at the end of its critical section."""
    process = state.processes[q]
    number = process.target
    left = process.has_left
    process.has_left = 0
    if process.is_activated:
        call_off(state, q)
    # Begin the next operation before the release: a process woken by that may preempt this one.
    begin_operation(state, p, q)
    if not left:
        release(state, number)
    if process.inherits:
        process.inherits = 0
        reconsider(state, p)


@step
def reach_task(state: State, p: int, q: int, operation: Records) -> None:
    """Process ``q`` takes the next task, or sleeps; if it has to move only, it wakes at once elsewhere."""
    process = state.processes[q]
    may_run = process.rank < min(state.jobs[process.job].allotted, operation.peer)
    if may_run and (process.home == p or state.machine[0].queue != m.BOUND):
        state.processes[process.source].at += 1
        take_task(state, p, q, operation)
        return
    process.activity = m.SUSPENDED
    block(state, p)
    if may_run:
        resume_at_home(state, q)


@step
def take_task(state: State, p: int, q: int, operation: Records) -> None:
    """Process ``q`` begins a task; others learn it if that is the first of another parallelism."""
    process = state.processes[q]
    job = state.jobs[process.job]
    process.phase += 1
    begin_computation(state, p, q, operation)
    if operation.peer != job.usable:
        job.usable = operation.peer
        state.clock[0].status = m.EVOLVED
        state.clock[0].subject = process.job
        resume_suspended(state, process.job, min(job.usable, job.allotted))


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
    if state.machine[0].queue == m.BOUND and process.home != process.processor:
        process.delayed = 0  # it leaves the old queue, with its debt
        move(state, q, process.home)
    process.replied = 1
    wake(state, q)

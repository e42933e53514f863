"""How a running process waits: it asks, spins, handles messages, blocks, and resumes.

Each function that returns an action says what the process does next (``program.carry_out``).
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes import messages
from harness.simulator.processes import model as m
from harness.simulator.processes.alarms import wake
from harness.simulator.processes.coscheduling import look
from harness.simulator.processes.costs import asks_itself, send_cost_ns
from harness.simulator.processes.events import send, set_activity, spin_until_look
from harness.simulator.processes.local import scheduler, svr4
from harness.simulator.processes.locks import check_holder, enter_section, take_if_free, wait_for_holder
from harness.simulator.processes.model import Records, State
from harness.simulator.processes.processor import block, charge, compute, preempt


@hot
def ask(state: State, p: int, q: int) -> int:
    """Send a read request, or an arrival at a barrier to the root, and wait for the reply."""
    process = state.processes[q]
    operation = messages.operation_of(state, q)
    process.activity = operation.code
    process.learns = operation.marks & m.LEARNS
    process.blocked = 0
    process.target = state.jobs[process.job].first
    if operation.code == m.READING:
        process.target += state.partners[q, operation.peer - process.reads - 1]
    charge(state, p, messages.message_category(process))
    return send_first(state, p, q) if state.machine[0].sends else m.START_WAIT


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
    now_ns = state.clock[0].now_ns
    process.wait_began_ns = now_ns
    process.remaining_ns = messages.spin_limit(state.jobs[process.job], process)
    process.spin_end_ns = now_ns + process.remaining_ns
    if not asks_itself(state, q):
        send(state, q << 1)
    elif process.activity == m.READING:
        process.replied = 1
    elif messages.take_arrival(state, process):
        messages.complete_barrier(state, q)
    if process.handling == m.BROADCASTING:
        set_activity(state, p, state.machine[0].send_ns)
        return m.DONE
    if process.inbox_first != m.NOBODY and not messages.handle_inbox(state, p, q):
        return m.DONE
    return m.SPIN


@hot
def spin(state: State, p: int, q: int) -> int:
    """Spin for the rest of the limit, or block if there is none."""
    process = state.processes[q]
    period_ns = look_period_ns(state, process)
    if process.replied:
        set_activity(state, p, 0)
    elif process.activity == m.LOCKING and state.machine[0].activations:
        wait_for_holder(state, p, q)
    elif process.remaining_ns <= 0:
        block(state, p)
    elif period_ns > 0:
        spin_until_look(state, p, process, period_ns)
    else:
        set_activity(state, p, process.remaining_ns)
    return m.DONE


@hot
def look_period_ns(state: State, process: Records) -> int:
    """How often the process looks after others in such a wait; 0 for never."""
    machine = state.machine[0]
    return int(machine.holder_check_ns if process.activity == m.LOCKING else machine.patience_ns)


@hot
def end_wait(state: State, p: int, q: int) -> int:
    process = state.processes[q]
    process.replied = 0
    if len(state.rested_send_ns) > 0:
        process.wait_ended_ns = state.clock[0].now_ns
    if process.activity != m.LOCKING:
        return m.NEXT
    enter_section(state, p, q)
    return m.DONE


@step
def end_spin(state: State, p: int, q: int) -> int:
    """The reply is there, or the process looks after others, or its limit has come."""
    process = state.processes[q]
    if process.replied:
        return m.END_WAIT
    if look_period_ns(state, process) == 0 or process.spin_end_ns <= state.clock[0].now_ns:
        block(state, p)
    elif process.activity == m.LOCKING:
        check_holder(state, p, q)
    else:
        look(state, p, q)
    return m.DONE


@hot
def read(state: State, p: int, q: int) -> int:
    """Serve the requests that came meanwhile, then read: who asked goes on, and this process waits."""
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
    send_ns = state.machine[0].send_ns
    if process.handling == m.SENDING:
        process.handling = m.FREE
        return m.START_WAIT
    if process.handling == m.BROADCASTING:
        send(state, (job.first + process.broadcast) << 1 | 1)
        process.broadcast += 1
        if process.broadcast == job.processes:
            process.handling = m.FREE
    else:
        process.handling = m.FREE
        messages.handle(state, q, messages.first_in_inbox(state, process))
    if process.handling == m.BROADCASTING:
        set_activity(state, p, send_ns)
        return m.DONE
    return m.RESUME if messages.handle_inbox(state, p, q) else m.DONE


@hot
def resume(state: State, p: int, q: int) -> int:
    """Every message is handled: sleep again, give way, or go on where the process was.

    An unblocked process gets a new user priority, and gives way to a process that ranks above it.
    """
    process = state.processes[q]
    if process.activity == m.LOCKING and not process.replied:
        take_if_free(state, q)
    if process.notice == messages.NOTICE_HERE and process.activity >= m.READING:
        messages.read_notices(state, q)
    if process.kernel:
        if not process.replied:
            block(state, p)
            return m.DONE
        process.kernel = 0
        svr4.wake(state, process)
        if scheduler.outranked(state, p, q):
            preempt(state, p, True)
            return m.DONE
    if process.replied:
        return m.END_WAIT
    if process.activity == m.STARTING:
        return m.NEXT
    if process.activity < m.READING:
        compute(state, p, process)
        return m.DONE
    charge(state, p, m.COMMUNICATING if process.activity == m.READING else m.SYNCHRONIZING)
    if state.machine[0].wall_clock_spin or look_period_ns(state, process) > 0:
        process.remaining_ns = process.spin_end_ns - state.clock[0].now_ns
    return m.SPIN


@hot
def receive(state: State, message: int) -> int:
    """``message`` arrives: a running process handles it now, any other when it runs next.

    The message wakes a blocked process; a ready one finds it when its turn comes. Returns the process whose
    wait is over by it, or NOBODY.
    """
    sender = state.processes[message >> 1]
    q = message >> 1
    if not message & 1:
        if sender.notice != messages.NO_NOTICE:
            receive_notice(state, q)
            return m.NOBODY
        q = sender.target
        if sender.activity == m.READING and state.jobs[sender.job].served_by_network:
            state.clock[0].messages += 1
            send(state, message | 1)
            return m.NOBODY
    process = state.processes[q]
    machine = state.machine[0]
    listens = process.state == m.RUNNING and (
        process.activity >= m.READING or not machine.handles_when_waiting
    )
    if listens and not state.jobs[process.job].message_costs:
        messages.handle(state, q, message)
        return q if process.replied else m.NOBODY
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
    if waits or process.state == m.FINISHED or process.activity == m.SLEEPING:
        messages.read_notices(state, q)
    elif process.state == m.BLOCKED:
        wake(state, q)


@step
def interrupt(state: State, q: int) -> None:
    """Running process ``q`` puts its activity aside to handle a message, which takes time."""
    process = state.processes[q]
    p = process.processor
    process.remaining_ns = state.processors[p].activity_ns - state.clock[0].now_ns
    messages.handle_inbox(state, p, q)

"""Sleep of a process for a time, and its wake-ups: by a message, or by the end of that time.

Noise of the operating system: detours that take a processor from its process for a moment.

Kernel threads and other programs run for a short while at random times. A detour takes time, and
makes the local scheduler choose again. Without detours, jobs whose processes take turns in
opposite orders on two processors would stay out of step for ever. With detours the processes of a
job run together by chance: with n jobs, in one slice of n.

A detour prolongs the activity of the processor: a computation, a spin, a switch. It does not delay
the message that ends a wait, and has no effect on an idle processor.

Source: Beckman, Iskra, Yoshii, Coghlan, "The Influence of Operating Systems on the Performance
of Collective Operations at Extreme Scale", 2006 (detours).
"""

from __future__ import annotations

from harness.simulator.compiled import step
from harness.simulator.processes.costs import exponential_ns
from harness.simulator.processes.events import set_activity, set_alarm
from harness.simulator.processes.local import scheduler
from harness.simulator.processes.model import BOUND, NOBODY, RUNNING, SLEEPING, State
from harness.simulator.processes.processor import block, preempt, reconsider
from harness.simulator.processes.ready_queues import choose_processor, enqueue
from harness.simulator.processes.remedies import retry_slot


@step
def detour(state: State, p: int) -> None:
    """Begin a detour on processor ``p``, and set the time of the next one."""
    processor = state.processors[p]
    machine = state.machine[0]
    clock = state.clock[0]
    length_ns = exponential_ns(processor, machine.detour_length_ns)
    processor.detour_ns = clock.now_ns + length_ns + 1 + exponential_ns(processor, machine.detour_gap_ns)
    q = processor.current
    if q == NOBODY:
        return
    process = state.processes[q]
    # Only a fair scheduler looks for another process when an interrupt returns.
    if machine.fair and process.state == RUNNING and scheduler.outranked(state, p, q):
        preempt(state, p, True)
    # Nobody is charged for the detour.
    processor.charged_ns += length_ns
    process.dispatched_ns += length_ns
    set_activity(state, p, processor.activity_ns - clock.now_ns + length_ns)


@step
def wake(state: State, q: int) -> None:
    """Wake blocked process ``q``; it has kernel priority until it has handled what woke it."""
    process = state.processes[q]
    process.kernel = 1
    if state.machine[0].queue != BOUND:
        choose_processor(state, q)
    scheduler.join(state, process)
    enqueue(state, q, False)
    reconsider(state, process.processor)


@step
def sleep(state: State, p: int, length_ns: int) -> None:
    """The running process sleeps for so long."""
    processor = state.processors[p]
    process = state.processes[processor.current]
    process.activity = SLEEPING
    process.alarm_ns = state.clock[0].now_ns + length_ns
    processor.alarm_ns = min(processor.alarm_ns, process.alarm_ns)
    block(state, p)


@step
def ring_alarms(state: State, p: int) -> None:
    """Wake each process of ``p`` whose time to think is over; begin a detour, change the slot, if due."""
    processor = state.processors[p]
    clock = state.clock[0]
    if processor.detour_ns <= clock.now_ns:
        clock.ticks += 1
        detour(state, p)
    if processor.deferral_ns <= clock.now_ns:
        retry_slot(state, p)
    q = due(state, p)
    while q != NOBODY:
        process = state.processes[q]
        process.alarm_ns = clock.never_ns
        process.wait_began_ns = clock.now_ns
        process.replied = 1
        wake(state, q)
        q = due(state, p)
    set_alarm(state, p)


@step
def due(state: State, p: int) -> int:
    """The first process of ``p`` whose alarm has to ring, or NOBODY."""
    for k in range(state.processors[p].residents):
        q = state.residents[p, k]
        if state.processes[q].alarm_ns <= state.clock[0].now_ns:
            return int(q)
    return NOBODY

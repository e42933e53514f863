"""Sleep of a process for a time, and its wake-ups: by a message, or by the end of that time."""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.events import set_alarm
from harness.simulator.processes.local import scheduler
from harness.simulator.processes.model import BOUND, NOBODY, THINKING, State
from harness.simulator.processes.noise import detour
from harness.simulator.processes.processor import block, reconsider
from harness.simulator.processes.put_offs import look_again
from harness.simulator.processes.ready_queues import choose_processor, enqueue


@hot
def wake(state: State, q: int) -> None:
    """Wake blocked process ``q``; it has kernel priority until it has handled what woke it."""
    process = state.processes[q]
    process.kernel = 1
    if state.machine[0].queue != BOUND:
        choose_processor(state, q)
    scheduler.wake(state, process)
    enqueue(state, q, False)
    reconsider(state, process.processor)


@step
def sleep(state: State, p: int, length_ns: int) -> None:
    """The running process sleeps for so long."""
    processor = state.processors[p]
    process = state.processes[processor.current]
    process.activity = THINKING
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
    if processor.put_off_ns <= clock.now_ns:
        look_again(state, p)
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

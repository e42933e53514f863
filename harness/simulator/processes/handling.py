"""How a running process handles the messages that came for it.

If handling takes time, it continues when a timer expires (``program.go_on_handling``).
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.events import send, set_activity
from harness.simulator.processes.messages import first_in_inbox, take_arrival, take_reply
from harness.simulator.processes.model import (
    BROADCASTING,
    CLOSING,
    COMMUNICATING,
    HANDLING,
    NOBODY,
    OPENING,
    READING,
    SYNCHRONIZING,
    Records,
    State,
)
from harness.simulator.processes.processor import charge


@hot
def message_category(process: Records) -> int:
    """The category of the time that ``process`` spends on sending and handling messages."""
    return SYNCHRONIZING if process.activity in (OPENING, CLOSING) else COMMUNICATING


@step
def handling_ns(state: State, process: Records) -> int:
    """Time that ``process`` takes to handle its oldest message, up to sending the response."""
    machine = state.machine[0]
    time_ns: int = machine.receive_ns
    if process.activity >= READING:
        time_ns += machine.poll_ns
    message = process.inbox_first
    if not message & 1 and state.processes[message >> 1].activity == READING:
        time_ns += machine.serve_ns + machine.send_ns
    return time_ns


@hot
def complete_barrier(state: State, q: int) -> None:
    """All have arrived: root process ``q`` releases every process of its job, itself included."""
    process = state.processes[q]
    job = state.jobs[process.job]
    machine = state.machine[0]
    first = 0
    if not machine.messages_to_self:
        take_reply(state, q)
        first = 1
    if machine.send_ns > 0 and first < job.processes:
        process.handling = BROADCASTING
        process.broadcast = first
    else:
        for other in range(job.first + first, job.first + job.processes):
            send(state, other << 1 | 1)


@hot
def handle(state: State, q: int, message: int) -> None:
    """Do what ``message`` asks of process ``q``."""
    state.clock[0].messages += 1
    if message & 1:
        take_reply(state, q)
        return
    sender = state.processes[message >> 1]
    if sender.activity == READING:
        send(state, message | 1)
    elif take_arrival(state, sender):
        complete_barrier(state, q)


@hot
def handle_inbox(state: State, p: int, q: int) -> bool:
    """Handle the messages in the inbox; False if that takes time and continues when a timer expires."""
    process = state.processes[q]
    machine = state.machine[0]
    while process.inbox_first != NOBODY:
        if machine.message_costs and not state.jobs[process.job].replays:
            charge(state, p, message_category(process))
            process.handling = HANDLING
            set_activity(state, p, handling_ns(state, process))
            return False
        handle(state, q, first_in_inbox(state, process))
    return True

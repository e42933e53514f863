"""Dynamic coscheduling of simulated processes, by the rule of ``workloads.coscheduling``.

A process that spins for an answer looks after its peers whenever ``patience_ns`` has passed since its wait
began. A look takes no time. The spin limit of such a wait counts wall-clock time, whatever ``spin_clock``
says.
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.events import spin_until_look
from harness.simulator.processes.model import CLOSING, NOBODY, READING, READY, RUNNING, Records, State
from harness.simulator.processes.processor import dispatch, leave
from harness.simulator.processes.ready_queues import enqueue


@hot
def may_look(state: State, process: Records) -> bool:
    """Whether a wait for messages goes on beyond the look that is due now."""
    patient = state.machine[0].patience_ns > 0 and process.activity <= CLOSING
    return bool(patient and process.spin_end_ns > state.clock[0].now_ns)


@step
def look(state: State, p: int, q: int) -> None:
    """Running process ``q`` has waited in vain: each peer that it waits for may get its processor."""
    process = state.processes[q]
    job = state.jobs[process.job]
    first, last = process.target, process.target + 1
    if process.activity == READING and job.served_by_network:
        last = first  # the answer comes without the process
    elif process.target == q:
        first, last = job.first + 1, job.first + job.processes
    for peer in range(first, last):
        if has_turn(state, p, q, peer):
            run_next(state, peer)
    spin_until_look(state, p, process, state.machine[0].patience_ns)


@step
def has_turn(state: State, p: int, q: int, peer: int) -> bool:
    """Whether process ``q`` on ``p`` gets ``peer``'s processor for it; then its job counts as served now."""
    peer_process = state.processes[peer]
    other = state.processors[peer_process.processor]
    now_ns = state.clock[0].now_ns
    if peer_process.state != READY or not peer_process.allowed or other.current == NOBODY:
        return False
    rival = state.processes[other.current]
    patient = now_ns - rival.wait_began_ns < state.machine[0].patience_ns
    waits = rival.state == RUNNING and READING <= rival.activity <= CLOSING and not rival.handling
    if not waits or patient or rival.job == peer_process.job:
        return False
    if other.given_ns >= 0 and now_ns - other.given_ns < state.machine[0].least_run_ns:
        return False
    ours, theirs = state.jobs[peer_process.job], state.jobs[rival.job]
    if ours.served_ns > theirs.served_ns or (
        ours.served_ns == theirs.served_ns and peer_process.job > rival.job
    ):
        return False
    ours.served_ns = now_ns
    other.given_ns = state.processors[p].given_ns = now_ns
    return True


@step
def run_next(state: State, peer: int) -> None:
    """Ready process ``peer`` gets its processor for the rest of its turn; the one that runs there is next."""
    process = state.processes[peer]
    p = process.processor
    other = state.processors[p].current
    process.priority = max(process.priority, state.processes[other].priority)
    leave(state, p, READY)
    enqueue(state, other, True)
    enqueue(state, peer, True)
    dispatch(state, p)

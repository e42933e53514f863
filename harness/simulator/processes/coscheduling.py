"""What processes look at in addition to their own waits: coscheduling and observation.

Dynamic coscheduling, by the rule of ``workloads.coscheduling``: a process that spins for an answer looks
after its peers whenever ``patience_ns`` has passed since its wait began. A look takes no time. The spin limit
of such a wait counts wall-clock time, whatever ``spin_clock`` says.

Observation, by the rule of ``workloads.coscheduling``: at the end of a phase a process looks from whom it
gets messages often. How many it gets in a phase follows from its program, so that the kernel counts none.
"""

from harness.simulator.compiled import step
from harness.simulator.processes import model as m
from harness.simulator.processes.model import Records, State
from harness.simulator.processes.processor import dispatch, leave
from harness.simulator.processes.ready_queues import enqueue


@step
def look(state: State, p: int, q: int) -> None:
    """Running process ``q`` has waited without success: each peer that it waits for may get its processor."""
    process = state.processes[q]
    job = state.jobs[process.job]
    first = process.target
    last = process.target + 1
    if process.activity == m.READING and job.served_by_network:
        last = first  # the answer comes without the process
    elif process.target == q:
        first = job.first + 1
        last = job.first + job.processes
    for peer in range(first, last):
        if has_turn(state, p, q, peer):
            run_next(state, peer)


@step
def has_turn(state: State, p: int, q: int, peer: int) -> bool:
    """Whether process ``q`` on ``p`` gets ``peer``'s processor for it; then its job counts as served now."""
    peer_process = state.processes[peer]
    other = state.processors[peer_process.processor]
    now_ns = state.clock.now_ns
    if peer_process.state != m.READY or not peer_process.allowed or other.current == m.NOBODY:
        return False
    rival = state.processes[other.current]
    patient = now_ns - rival.wait_began_ns < state.machine.patience_ns
    waits = rival.state == m.RUNNING and m.READING <= rival.activity <= m.CLOSING and not rival.handling
    if not waits or patient or rival.job == peer_process.job:
        return False
    if other.given_ns >= 0 and now_ns - other.given_ns < state.machine.min_run_ns:
        return False
    ours = state.jobs[peer_process.job]
    theirs = state.jobs[rival.job]
    if ours.served_ns > theirs.served_ns or (
        ours.served_ns == theirs.served_ns and peer_process.job > rival.job
    ):
        return False
    ours.served_ns = now_ns
    other.given_ns = state.processors[p].given_ns = now_ns
    return True


@step
def run_next(state: State, peer: int) -> None:
    """Ready process ``peer`` gets its processor for the rest of its slice; the one that runs is next."""
    process = state.processes[peer]
    p = process.processor
    other = state.processors[p].current
    process.priority = max(process.priority, state.processes[other].priority)
    leave(state, p, m.READY)
    enqueue(state, other, True)
    enqueue(state, peer, True)
    dispatch(state, p, m.USUAL)


@step
def observe(state: State, q: int, operation: Records) -> None:
    """Process ``q`` has just begun another phase: it looks if it is time, or later if Python is busy."""
    process = state.processes[q]
    begins = operation.marks & (m.OBSERVES | m.PASSES) == m.OBSERVES | m.PASSES
    if (
        not begins
        or state.clock.now_ns < process.observe_at_ns
        or state.clock.status not in (m.GOING, m.REFILL)
    ):
        return
    process.observe_at_ns = state.clock.now_ns + state.machine.observe_ns
    state.clock.status = m.LOOKS
    state.clock.subject = q

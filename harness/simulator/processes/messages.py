"""Messages: read requests, arrivals at the root of a barrier, and their replies.

Source: Dusseau et al. 1996, footnote 1 (the barrier) and section 3.1 (reads).
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.model import CLOSING, NEVER_NS, NOBODY, OPENING, READING, Records, State
from workloads import blocking
from workloads.blocking import FOREVER_NS, GLOBAL_ADAPTIVE, LOCAL_ADAPTIVE, UNKNOWN_NS, Waiting

barrier_limit = step(blocking.barrier_limit)
read_limit = step(blocking.read_limit)
report = step(blocking.report)
observed = step(blocking.observed)
learn = step(blocking.learn)


@hot
def waiting_rule(job: Records) -> Waiting:
    """The waiting rule of ``job``."""
    return Waiting(job.rule, job.switch_ns, job.round_trip_ns, job.fixed_ns, job.imbalance_ns, job.estimate)


@hot
def spin_limit(job: Records, process: Records) -> int:
    """Nanoseconds that ``process`` spins in its present wait before it blocks."""
    rule = waiting_rule(job)
    if process.activity == READING and job.served_by_network:
        return NEVER_NS
    if process.activity == READING:
        return min(read_limit(rule), NEVER_NS)
    return min(barrier_limit(rule, process.estimate_ns), NEVER_NS)


@hot
def ends_compute_phase(job: Records, activity: int) -> bool:
    """Whether the waits at the barrier ``activity`` show the load imbalance."""
    return activity == OPENING or (activity == CLOSING and not job.opening)


@hot
def take_reply(state: State, q: int) -> None:
    """Process ``q`` finds the reply it waits for: count the wait and learn from it."""
    process = state.processes[q]
    process.replied = 1
    waited_ns = state.clock[0].now_ns - process.wait_began_ns
    waits = state.waits[process.job, process.activity - READING, process.blocked]
    waits[0] += 1
    waits[1] += waited_ns
    if process.activity != READING:
        job = state.jobs[process.job]
        if ends_compute_phase(job, process.activity):
            process.previous_wait_ns = waited_ns
            if job.rule == LOCAL_ADAPTIVE:
                process.estimate_ns = learn(state.samples[q], waited_ns)
        if job.rule == GLOBAL_ADAPTIVE:
            process.estimate_ns = job.estimate_ns


@hot
def take_arrival(state: State, sender: Records) -> bool:
    """The root counts an arrival at its barrier; True if it was the last one.

    The message carries the sender's previous wait at the barrier that ends the compute
    phase, or its time of sending. The completion carries the estimate from the barriers before this
    one. Then the root learns from the reports of this barrier, like ``workloads.messaging``.
    """
    job = state.jobs[sender.job]
    said_ns = report(waiting_rule(job), sender.previous_wait_ns, sender.wait_began_ns)
    job.least_report_ns = min(job.least_report_ns, said_ns)
    job.greatest_report_ns = max(job.greatest_report_ns, said_ns)
    job.arrived += 1
    if job.arrived < job.processes:
        return False
    job.arrived = 0
    job.estimate_ns = job.learned_ns
    seen_ns = observed(waiting_rule(job), job.least_report_ns, job.greatest_report_ns)
    job.least_report_ns, job.greatest_report_ns = FOREVER_NS, UNKNOWN_NS
    if job.rule == GLOBAL_ADAPTIVE and seen_ns >= 0 and ends_compute_phase(job, sender.activity):
        job.learned_ns = learn(state.samples[len(state.processes) + sender.job], seen_ns)
    return True


@hot
def put_in_inbox(state: State, q: int, message: int) -> None:
    """Keep ``message`` until process ``q`` runs and handles it."""
    process = state.processes[q]
    state.processes[message >> 1].next_message = NOBODY
    if process.inbox_first == NOBODY:
        process.inbox_first = message
    else:
        state.processes[process.inbox_last >> 1].next_message = message
    process.inbox_last = message


@hot
def first_in_inbox(state: State, process: Records) -> int:
    """Take the oldest message out of the inbox, which is not empty."""
    message: int = process.inbox_first
    process.inbox_first = state.processes[message >> 1].next_message
    return message

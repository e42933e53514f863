"""Earliest eligible virtual deadline first: the default class of Linux since 6.6.

Every runnable process has a virtual run time, which grows while it runs (all weights are
equal here), and a virtual deadline one slice later. A process is eligible if its virtual run
time is at most the average of all queued processes. The eligible process with the earliest
deadline runs. As in Linux 6.12 and later:

- a process pays for its switch: it is charged from when it is chosen;
- the running process keeps the processor while it is eligible and its slice lasts (run to
  parity); the scheduler checks the slice at the clock tick and when a process wakes;
- a process that wakes joins as far before or behind the average as it was when it went to
  sleep (its lag); a running process that is past the average gives way to it;
- a process that goes to sleep after more than its share stays queued until the scheduler would
  pick it (delayed dequeue); then its debt is cancelled.

Sources: Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995; Linux 6.18,
kernel/sched/fair.c: pick_eevdf, place_entity, update_deadline, requeue_delayed_entity.
"""

from harness.simulator.compiled import hot, step
from harness.simulator.processes.model import BLOCKED, NOBODY, READY, RUNNING, TAKING_OVER, Records, State

SLICE_NS = 1_400_000
"""Base slice with two processors: 0.7 ms (1 + log2(processors)); at most 8 processors count."""

TICK_NS = 4_000_000  # HZ = 250


@hot
def queued(process: Records) -> bool:
    """Whether ``process`` counts in the average: it is runnable, or asleep with a debt."""
    if process.state == BLOCKED:
        return bool(process.delayed)
    return bool(process.allowed and (READY <= process.state <= RUNNING))


@step
def average(state: State, p: int) -> int:
    """Average virtual run time of processor ``p``'s queue, rounded up; if empty, the last one."""
    processor = state.processors[p]
    total = 0
    count = 0
    for k in range(processor.residents):
        process = state.processes[state.residents[p, k]]
        if queued(process):
            total += process.virtual_ns - processor.average_ns
            count += 1
    if count > 0:
        processor.average_ns -= -total // count
    return int(processor.average_ns)


@hot
def charge_running(state: State, p: int) -> int:
    """Charge the running process up to now; returns it, or none."""
    processor = state.processors[p]
    q = processor.current
    if q == NOBODY or state.processes[q].state != RUNNING:
        return NOBODY
    now_ns = state.clock.now_ns
    state.processes[q].virtual_ns += now_ns - processor.charged_ns
    processor.charged_ns = now_ns
    return int(q)


@hot
def settle(state: State, p: int) -> bool:
    """Charge the running process up to now; True if its slice has ended, and a new one begins."""
    q = charge_running(state, p)
    if q == NOBODY:
        return False
    process = state.processes[q]
    if process.virtual_ns < process.deadline_ns:
        return False
    process.deadline_ns = process.virtual_ns + state.machine.slice_ns
    return True


@hot
def slice_end_ns(state: State, p: int) -> int:
    """When the running process will have used its slice."""
    processor = state.processors[p]
    process = state.processes[processor.current]
    return int(processor.charged_ns + process.deadline_ns - process.virtual_ns)


@step
def may_end_ns(state: State, p: int) -> int:
    """When the running process will have used its slice or more than the average, if nothing else happens."""
    processor = state.processors[p]
    process = state.processes[processor.current]
    end_ns = slice_end_ns(state, p)
    total_ns = 0
    others = -1
    for k in range(processor.residents):
        other = state.processes[state.residents[p, k]]
        if queued(other):
            total_ns += other.virtual_ns - process.virtual_ns
            others += 1
    if others > 0:
        # Its virtual time less one reaches the average, which is rounded up.
        end_ns = min(end_ns, int(processor.charged_ns - -(total_ns + others + 1) // others))
    return end_ns


@step
def best(state: State, p: int) -> int:
    """The ready process that is to run next on processor ``p``, or none."""
    while True:
        mean_ns = average(state, p)
        found = NOBODY
        for k in range(state.processors[p].residents):
            q = state.residents[p, k]
            process = state.processes[q]
            if process.state in (RUNNING, TAKING_OVER) or not queued(process) or process.virtual_ns > mean_ns:
                continue
            other = state.processes[found]
            # Ties go to the process that queued up first.
            if found == NOBODY or (process.deadline_ns, process.order) < (other.deadline_ns, other.order):
                found = q
        if found == NOBODY:
            return least(state, p)
        if state.processes[found].state != BLOCKED:
            return found
        state.processes[found].delayed = 0
        state.processes[found].debt_ns = 0


@step
def least(state: State, p: int) -> int:
    """The ready process with the smallest virtual run time, or none; for when none is eligible."""
    found = NOBODY
    for k in range(state.processors[p].residents):
        q = state.residents[p, k]
        process = state.processes[q]
        if (
            process.state == READY
            and process.allowed
            and (found == NOBODY or process.virtual_ns < state.processes[found].virtual_ns)
        ):
            found = q
    return found


@step
def outranked(state: State, p: int, q: int) -> bool:
    """Whether running process ``q`` has to give way to a ready one of processor ``p``."""
    ended = settle(state, p)
    process = state.processes[q]
    eligible = process.virtual_ns <= average(state, p)
    if eligible and not ended:
        return False
    other = best(state, p)
    if other == NOBODY:
        return False
    # With equal deadlines it keeps the processor: Linux would change once, but here turns that are alike to
    # the nanosecond would change at every look.
    return bool(not eligible or state.processes[other].deadline_ns < process.deadline_ns)


@step
def ahead_ns(state: State, process: Records) -> int:
    """How far the virtual time of ``process`` is beyond the average of its queue, within bounds."""
    max_ns = max(2 * state.machine.slice_ns, TICK_NS)
    return int(min(max(process.virtual_ns - average(state, process.processor), -max_ns), max_ns))


@step
def sleep(state: State, p: int, process: Records) -> None:
    """The running process is about to block: note its lag behind or before the average."""
    settle(state, p)
    process.debt_ns = ahead_ns(state, process)
    process.delayed = process.debt_ns > 0


@step
def change_queues(state: State, q: int, p: int) -> None:
    """Convert the virtual times of ready process ``q`` before it moves to processor ``p``.

    It keeps its distance from the average run time of its queue, within bounds, and from its deadline.
    """
    process = state.processes[q]
    charge_running(state, process.processor)
    charge_running(state, p)
    ahead_by_ns = ahead_ns(state, process)
    left_ns = process.deadline_ns - process.virtual_ns
    process.virtual_ns = average(state, p) + ahead_by_ns
    process.deadline_ns = process.virtual_ns + left_ns


@step
def place(state: State, process: Records) -> None:
    """A process enters or wakes: it joins at the average, with its lag."""
    p = process.processor
    charge_running(state, p)  # whether its slice has ended, ``outranked`` finds
    if process.delayed:
        # It never left the queue; if the others have caught up, it has no debt any more.
        mean_ns = average(state, p)
        process.delayed = 0
        if process.virtual_ns > mean_ns:
            return
        process.debt_ns = 0
    process.virtual_ns = average(state, p) + process.debt_ns
    process.debt_ns = 0
    process.deadline_ns = process.virtual_ns + state.machine.slice_ns

"""Ready queues: where processes that are not bound to a processor wait for one.

    bound     each processor has a queue, and a process stays in it
    central   one queue for all processors
    affinity  a queue for each processor, and one for the system, in which new processes wait. A processor
              takes from its own queue; from the system's when that is empty, and at the end of each turn;
              and when both are empty, from the longest queue of another processor
    stealing  the same without the queue of the system; under ``eevdf`` with what Linux does to balance
              queues (below)

No process goes to a processor on which its job may not be (``State.places``). One that wakes goes to a
processor that idles, its last one if it can. The system's queue is emptied by
turns, too, and not only when the others are done: else processes could spin for ever for one that is in it.

Sources: the survey, section on space sharing in shared memory (affinity); Squillante and Lazowska 1993;
Linux 6.18, kernel/sched/fair.c: select_idle_sibling, sched_balance_newidle, task_hot; kernel/sched/rt.c:
pull_rt_task.

How Linux's fair scheduler balances the queues of processors that share a cache.

At its clock tick an idle processor takes a process from the longest queue. A busy one looks every
BALANCE_TICKS ticks: it takes one from a queue that is longer by two, or by one if it has found that before.
It takes a process that has just run only if it has found no other one twice.

Source: Linux 6.18, kernel/sched/fair.c: sched_balance_domains, calculate_imbalance, detach_tasks (shr_bound:
half a process's load counts after a failure), sched_balance_rq. Weights are equal, loads are numbers of
processes; a running process is never moved (no active balancing).
"""

from harness.simulator.compiled import hot, step
from harness.simulator.processes import model as m
from harness.simulator.processes.local import eevdf
from harness.simulator.processes.model import State

HOT_NS = 500_000
"""The fair scheduler leaves a process alone that ran so short a time ago (sched_migration_cost), ..."""

HOT_TRIES = 1
"""... unless it has failed more often than this to balance queues (cache_nice_tries)."""


@hot
def enqueue(state: State, q: int, first: bool) -> None:
    """Make process ``q`` ready, before or behind the others of its priority."""
    process = state.processes[q]
    processor = state.processors[0 if state.machine.queue == m.CENTRAL else process.processor]
    process.state = m.READY
    if first:
        processor.first_order -= 1
        process.order = processor.first_order
    else:
        processor.last_order += 1
        process.order = processor.last_order


@step
def fetch(state: State, p: int) -> None:
    """Bring the process that free processor ``p`` is to run next into its queue, if it waits elsewhere."""
    if state.machine.queue == m.CENTRAL:
        q = first_in_line(state, m.READY, p)
        if q != m.NOBODY and state.processes[q].processor != p:
            move(state, q, p)
    elif count(state, p, m.READY) == 0 and not claim(state, p):
        steal(state, p, longest_queue(state, p))


@step
def claim(state: State, p: int) -> bool:
    """Take a process out of the system's queue for processor ``p``; False if there is none."""
    q = first_in_line(state, m.UNCLAIMED, p)
    if q == m.NOBODY:
        return False
    move(state, q, p)
    enqueue(state, q, False)
    return True


@step
def first_in_line(state: State, waiting: int, p: int) -> int:
    """The process that queued up first of all in the state ``waiting`` that may run on ``p``, or none."""
    found = m.NOBODY
    for q in range(len(state.processes)):
        first = found == m.NOBODY or state.processes[q].order < state.processes[found].order
        if first and may_come(state, q, waiting, p):
            found = q
    return found


@hot
def may_come(state: State, q: int, waiting: int, p: int) -> bool:
    """Whether process ``q`` is in the state ``waiting``, and may run on ``p``."""
    process = state.processes[q]
    return bool(process.state == waiting and process.allowed and state.places[process.job, p])


@step
def count(state: State, p: int, last_state: int) -> int:
    """How many processes on ``p`` may run and are in a state from READY to ``last_state``."""
    found = 0
    for k in range(state.processors[p].residents):
        process = state.processes[state.residents[p, k]]
        found += bool(process.allowed and m.READY <= process.state <= last_state)
    return found


@step
def longest_queue(state: State, p: int) -> int:
    """The busy processor other than ``p`` on which most processes are ready or run.

    None of them, if on no processor a process waits that may be on ``p``.
    """
    found = m.NOBODY
    most = 1
    for other in range(len(state.processors)):
        if other != p and state.processors[other].current != m.NOBODY:
            length = count(state, other, m.RUNNING)
            if length > most and has_some_for(state, other, p):
                found = other
                most = length
    return found


@step
def has_some_for(state: State, other: int, p: int) -> bool:
    """Whether a process that waits on ``other`` may be on ``p``."""
    for k in range(state.processors[other].residents):
        if may_come(state, state.residents[other, k], m.READY, p):
            return True
    return False


@step
def steal(state: State, p: int, other: int) -> bool:
    """Take the process that has waited longest in ``other``'s queue for ``p``; False if it may take none."""
    found = m.NOBODY
    now_ns = state.clock.now_ns
    spares = state.machine.fair and state.processors[p].failures <= HOT_TRIES
    for k in range(state.processors[other].residents if other != m.NOBODY else 0):
        q = state.residents[other, k]
        left_ns = state.accounts[q, m.LEFT]
        hot_yet = spares and state.accounts[q, m.DISPATCHES] > 0 and now_ns - left_ns < HOT_NS
        longest = found == m.NOBODY or left_ns < state.accounts[found, m.LEFT]
        if longest and not hot_yet and may_come(state, q, m.READY, p):
            found = q
    if found == m.NOBODY:
        return False
    if state.machine.fair:
        eevdf.change_queues(state, found, p)
    move(state, found, p)
    enqueue(state, found, False)
    return True


@step
def choose_processor(state: State, q: int) -> None:
    """Move process ``q``, which is about to wake, to an idle processor if its own is busy."""
    process = state.processes[q]
    if process.delayed or state.processors[process.processor].current == m.NOBODY:
        return
    for p in range(len(state.processors)):
        if state.processors[p].current == m.NOBODY and state.places[process.job, p]:
            move(state, q, p)
            return


@step
def move(state: State, q: int, new: int) -> None:
    """Put process ``q``, which does not run, on processor ``new``.

    In the end all that a process has used counts for its last processor. So ``moved`` adds what ``q`` has
    used so far to the old processor, and subtracts it from the new one.
    """
    process = state.processes[q]
    old = process.processor
    left = state.processors[old]
    at = 0
    while state.residents[old, at] != q:
        at += 1
    left.residents -= 1
    while at < left.residents:
        state.residents[old, at] = state.residents[old, at + 1]
        at += 1
    joined = state.processors[new]
    state.residents[new, joined.residents] = q
    joined.residents += 1
    for column in range(state.accounts.shape[1]):
        state.moved[old, column] += state.accounts[q, column]
        state.moved[new, column] -= state.accounts[q, column]
    process.processor = new


BALANCE_TICKS = 8  # 2 ms for a domain of two processors, times 16 on a busy one, in ticks of 4 ms


@step
def balance(state: State, p: int) -> bool:
    """Whether processor ``p`` has taken a process from another one at this clock tick."""
    processor = state.processors[p]
    if processor.current != m.NOBODY:
        processor.ticks_to_balance -= 1
        if processor.ticks_to_balance > 0:
            return False
        processor.ticks_to_balance = BALANCE_TICKS
    other = longest_queue(state, p)
    ahead = count(state, other, m.RUNNING) - count(state, p, m.RUNNING) if other != m.NOBODY else 0
    if (ahead > 1 or (ahead == 1 and processor.failures > 0)) and steal(state, p, other):
        processor.failures = 0
        return True
    processor.failures = processor.failures + 1 if ahead > 0 else 0
    return False

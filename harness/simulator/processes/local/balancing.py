"""How Linux's fair scheduler balances the queues of processors that share a cache.

At its clock tick an idle processor takes a process from the longest queue. A busy one looks every
BALANCE_TICKS ticks: it takes one from a queue that is longer by two, or by one if it has found that before.
It takes a process that has just run only if it has found no other one twice.

Source: Linux 6.18, kernel/sched/fair.c: sched_balance_domains, calculate_imbalance, detach_tasks (shr_bound:
half a process's load counts after a failure), sched_balance_rq. Weights are equal, loads are numbers of
processes; a running process is never moved (no active balancing).
"""

from __future__ import annotations

from harness.simulator.compiled import step
from harness.simulator.processes.model import NOBODY, RUNNING, State
from harness.simulator.processes.ready_queues import count, longest_queue, steal

BALANCE_TICKS = 8
"""2 ms for a domain of two processors, times 16 on a busy one, in ticks of 4 ms."""


@step
def balance(state: State, p: int) -> bool:
    """Whether processor ``p`` has taken a process from another one at this clock tick."""
    processor = state.processors[p]
    if processor.current != NOBODY:
        processor.ticks_to_balance -= 1
        if processor.ticks_to_balance > 0:
            return False
        processor.ticks_to_balance = BALANCE_TICKS
    other = longest_queue(state, p)
    ahead = count(state, other, RUNNING) - count(state, p, RUNNING) if other != NOBODY else 0
    if (ahead > 1 or (ahead == 1 and processor.failures > 0)) and steal(state, p, other):
        processor.failures = 0
        return True
    processor.failures = processor.failures + 1 if ahead > 0 else 0
    return False

"""The CPU quota of a control group, as Linux has it: all processors together have a budget of time.

The processes of all jobs may use ``quota_ns`` of processor time in each period; the first begins at 0. A
processor uses it while it has a process, also one that spins, and one to which it switches. When it is used
up, no processor has a process until the next period begins. A switch under way is carried through; what that
uses beyond the budget is missing in the next period. What is left at the end of a period is lost. Slots go on
by the clock.

Sources: Turner, Rao, Rao, "CPU bandwidth control for CFS", 2010; Linux 6.18, kernel/sched/fair.c. There,
processors take the budget in slices of 5 ms, so that they stop a few milliseconds after each other.
"""

from __future__ import annotations

from harness.simulator.compiled import step
from harness.simulator.processes.model import NOBODY, READY, State
from harness.simulator.processes.ready_queues import count


@step
def account(state: State, more: int) -> None:
    """From now on so many more processors have processes; set when the budget will be used up."""
    clock = state.clock[0]
    clock.budget_ns -= clock.busy * (clock.now_ns - clock.accounted_ns)
    clock.accounted_ns = clock.now_ns
    clock.busy += more
    clock.quota_at_ns = clock.period_end_ns
    if clock.busy > 0 and not clock.throttled:
        lasts_ns = -(-max(0, clock.budget_ns) // clock.busy)
        clock.quota_at_ns = min(clock.quota_at_ns, clock.now_ns + lasts_ns)
    clock.next_ns = min(clock.slot_end_ns + clock.late_ns, clock.until_ns, clock.quota_at_ns)


@step
def changes(state: State) -> bool:
    """The budget is used up, or a period begins: whether processors stop or may go on by that."""
    clock = state.clock[0]
    account(state, 0)
    if clock.now_ns >= clock.period_end_ns:
        clock.period_end_ns += state.machine[0].period_ns
        clock.budget_ns = min(clock.budget_ns, 0) + state.machine[0].quota_ns
    changed = (clock.budget_ns <= 0) != (clock.throttled > 0)
    if changed:
        if clock.throttled:
            add_throttled(state)
        clock.throttled = 1 - clock.throttled
        clock.throttled_at_ns = clock.now_ns
    account(state, 0)
    return bool(changed)


@step
def add_throttled(state: State) -> None:
    """Add the time for which each processor has stood still although a process was ready there."""
    clock = state.clock[0]
    for p in range(len(state.processors)):
        processor = state.processors[p]
        if processor.current == NOBODY and count(state, p, READY) > 0:
            clock.throttled_ns += clock.now_ns - max(processor.since_ns, clock.throttled_at_ns)

"""The CPU quota of a control group, as Linux has it: one budget, which processors take in slices.

The processes of all jobs may use ``quota_ns`` of CPU time in each period; the first begins at 0. A
processor that computes, spins or switches uses up its share. It looks at the share at its clock tick, and
when a process comes, goes, yields or becomes ready. From an empty share the processor has a debt; it takes a
slice and the debt from the budget. If the budget is empty, too, the processor stands still, after a switch
that is under way. When the next period begins, the budget is whole again, pays for what was used too much,
and the processors go on. One that has no ready process any more keeps 1 ms of its share and gives back the
rest. If more than a slice is there by that 5 ms later, processors that stand still continue. What is left of
the budget at the end of a period is lost; shares last. Slots continue by the clock.

Sources: Turner, Rao, Rao, "CPU bandwidth control for CFS", 2010; Linux 6.18, kernel/sched/fair.c:
__assign_cfs_rq_runtime, check_enqueue_throttle, distribute_cfs_runtime, __return_cfs_rq_runtime,
do_sched_cfs_slack_timer.
"""

from harness.simulator.compiled import step
from harness.simulator.processes.events import set_next
from harness.simulator.processes.model import NOBODY, State

SLICE_NS = 5_000_000  # sched_cfs_bandwidth_slice_us
KEPT_NS = 1_000_000  # of a share, by a processor without a ready process (min_cfs_rq_runtime)

SLACK_NS = 5_000_000
"""After what is given back it is so long until others get it (cfs_bandwidth_slack_period), ..."""

LATEST_NS = SLACK_NS + 2_000_000
"""... unless the period ends earlier than in this time (min_bandwidth_expiration)."""


@step
def stands_still(state: State, p: int) -> bool:
    """Charge processor ``p`` for its time up to now; whether the quota stops it."""
    clock = state.clock
    processor = state.processors[p]
    if processor.current != NOBODY:
        processor.share_ns -= clock.now_ns - processor.accounted_ns
    processor.accounted_ns = clock.now_ns
    if processor.share_ns <= 0 and not processor.throttled:
        give(state, p, SLICE_NS)
        if processor.share_ns <= 0:
            processor.throttled = 1
            processor.stood_ns = clock.never_ns
            clock.throttled += 1
    return bool(processor.throttled)


@step
def share_end_ns(state: State, p: int) -> int:
    """When processor ``p``, which has a process, will have used up its share."""
    return int(state.processors[p].accounted_ns + state.processors[p].share_ns)


@step
def give(state: State, p: int, share_ns: int) -> None:
    """Let the share of processor ``p`` be ``share_ns``, as far as the budget lasts."""
    clock = state.clock
    processor = state.processors[p]
    given_ns = min(clock.budget_ns, share_ns - processor.share_ns)
    processor.share_ns += given_ns
    clock.budget_ns -= given_ns


@step
def give_back(state: State, p: int) -> None:
    """Processor ``p``, which has a process as yet, is about to have none."""
    clock = state.clock
    processor = state.processors[p]
    if stands_still(state, p) or processor.share_ns <= KEPT_NS:
        return
    give(state, p, KEPT_NS)
    in_time = clock.now_ns + LATEST_NS <= clock.period_end_ns == clock.quota_at_ns
    if clock.throttled > 0 and clock.budget_ns > SLICE_NS and in_time:
        clock.quota_at_ns = clock.now_ns + SLACK_NS
        set_next(state)


@step
def hand_out(state: State) -> bool:
    """A period begins, or the time for what was given back has come: whether processors may continue."""
    clock = state.clock
    clock.quota_at_ns = clock.period_end_ns
    begins = clock.now_ns >= clock.period_end_ns
    if begins:
        clock.quota_at_ns = clock.period_end_ns = clock.period_end_ns + state.machine.period_ns
        clock.budget_ns = state.machine.quota_ns
    set_next(state)
    return bool(begins or clock.budget_ns > SLICE_NS)


@step
def goes_on(state: State, p: int) -> bool:
    """Whether the budget lets processor ``p`` continue, which stands still."""
    clock = state.clock
    processor = state.processors[p]
    if not processor.throttled or clock.budget_ns <= 0:
        return False
    stands_still(state, p)
    give(state, p, 1)
    if processor.share_ns <= 0:
        return False
    processor.throttled = 0
    clock.throttled -= 1
    clock.throttled_ns += max(0, clock.now_ns - processor.stood_ns)
    return True

"""The event loop.

It returns to Python when a job has finished, when compute times run out, at the end of a
table of slots that does not repeat, when the timeline is full, at a given time, and after
EVENTS events, so that an interrupt is noticed; the next call continues where the last one stopped.
"""

from harness.simulator.by_reference import by_reference
from harness.simulator.compiled import entry, step
from harness.simulator.processes import locks, quota
from harness.simulator.processes import model as m
from harness.simulator.processes.costs import drawn
from harness.simulator.processes.events import set_alarm, set_next, set_timers
from harness.simulator.processes.local import scheduler
from harness.simulator.processes.model import State
from harness.simulator.processes.processor import end_slice, give_away, os_noise, reconsider, tick, wake
from harness.simulator.processes.program import carry_out, receive, resume_deferred, resume_suspended
from harness.simulator.processes.skipping import may_skip, skip
from workloads.options import ACTIVATIONS

EVENTS = 1 << 20  # events that take a fraction of a second


@entry
def advance(state: State) -> int:
    """Simulate events until Python is needed; returns why. ``state`` is modified in place."""
    return go(by_reference(state))


@step
def go(state: State) -> int:
    """Simulate events until Python is needed; returns why."""
    clock = state.clock
    clock.status = m.GOING
    set_next(state)
    mask = len(state.messages) - 1
    if clock.new_plan:
        clock.new_plan = 0
        apply_slot(state)
    events = 0
    while clock.status == m.GOING:
        events += 1
        set_timers(state)
        message = state.messages[clock.head & mask]
        timer = state.timers[1]
        message_ns = message >> clock.shift
        timer_ns = timer >> clock.shift
        action = m.DONE
        q = m.NOBODY
        if min(message_ns, timer_ns) >= clock.next_ns:
            end_slot(state)
        elif message_ns <= timer_ns:
            clock.now_ns = message_ns
            clock.head += 1
            q = receive(state, message & ((1 << clock.shift) - 1))
            if q != m.NOBODY:
                action = m.END_WAIT
        else:
            clock.now_ns = timer_ns
            clock.timers += 1
            p = timer & ((1 << clock.shift) - 1)
            processor = state.processors[p]
            if timer_ns < min(processor.tick_ns, processor.alarm_ns):
                q = processor.current
                action = m.TAKE_OVER if processor.switching else m.END_ACTIVITY
            else:
                expire(state, p)
        if action != m.DONE:
            carry_out(state, action, state.processes[q].processor, q)
            if action == m.END_WAIT and may_skip(state, q):
                skip(state, state.processes[q].job)
        if clock.recorded > clock.recording and clock.status == m.GOING:
            clock.status = m.TIMELINE_FULL
        elif events >= EVENTS and clock.status == m.GOING:
            clock.status = m.PAUSED
    set_timers(state)
    return int(clock.status)


@step
def expire(state: State, p: int) -> None:
    """The clock tick; else an alarm: of an activation, detour, slot, slice, yield, or of sleepers."""
    processor = state.processors[p]
    if processor.tick_ns <= state.clock.now_ns:
        tick(state, p)
        return
    if state.machine.remedy == ACTIVATIONS:
        locks.end_activation(state, p)
    if processor.os_noise_at_ns <= state.clock.now_ns:
        os_noise(state, p)
    if processor.deferral_ns <= state.clock.now_ns:
        locks.retry_slot(state, p)
    if processor.slice_end_ns <= state.clock.now_ns:
        end_slice(state, p)
    if processor.yield_at_ns <= state.clock.now_ns:
        give_away(state, p)
    q = due(state, p)
    while q != m.NOBODY:
        process = state.processes[q]
        process.alarm_ns = state.clock.never_ns
        process.wait_began_ns = state.clock.now_ns
        process.activity = m.ANSWERED
        wake(state, q)
        q = due(state, p)
    set_alarm(state, p)


@step
def due(state: State, p: int) -> int:
    """The first process of ``p`` whose alarm has to ring, or none."""
    for k in range(state.processors[p].residents):
        q = state.residents[p, k]
        if state.processes[q].alarm_ns <= state.clock.now_ns:
            return int(q)
    return m.NOBODY


@step
def end_slot(state: State) -> None:
    """A slot has ended, the time that the caller set is over, or the one that a quota has set has come."""
    clock = state.clock
    clock.now_ns = clock.next_ns
    if clock.quota_at_ns < min(clock.until_ns, clock.slot_end_ns + clock.late_ns):
        if quota.hand_out(state):
            for p in range(len(state.processors)):
                if quota.goes_on(state, p):
                    reconsider(state, p, m.USUAL)
    elif clock.until_ns <= clock.slot_end_ns + clock.late_ns:
        clock.now_ns = clock.until_ns - 1
        clock.status = m.UNTIL
    elif clock.slot + 1 == len(state.slots) and not clock.cyclic:
        clock.status = m.TABLE_END
    else:
        clock.slot = (clock.slot + 1) % len(state.slots)
        clock.slot_end_ns += state.slot_ns[clock.slot]
        # It ends at least as late as it has begun already.
        clock.late_ns = max(drawn(clock, state.switch_delay_ns), clock.now_ns - clock.slot_end_ns)
        set_next(state)
        apply_slot(state)


@step
def apply_slot(state: State) -> None:
    """Let only the processes run that the slot in force allows."""
    slot = state.slots[state.clock.slot]
    if state.machine.deferrals > 0:
        for p in range(len(state.processors)):
            locks.put_off_slot(state, p, state.machine.deferrals)
    for q in range(len(state.processes)):
        process = state.processes[q]
        if state.processors[process.processor].deferrals_left == 0:
            process.allowed = slot[q]
        if process.state == m.ENTERING:
            scheduler.enter(state, process)
            process.state = m.UNCLAIMED if state.machine.queue == m.AFFINITY else m.READY
    for p in range(len(state.processors)):
        reconsider(state, p, m.NEW_SLOT)
    if state.machine.warning_ns > 0:
        resume_deferred(state)
    for q in range(len(state.processes) if state.machine.remedy == ACTIVATIONS else 0):
        if state.processes[q].activity == m.SECTION:
            locks.activate(state, q)  # a slot stops it, and it has a lock
    if state.clock.resized:
        state.clock.resized = 0
        for index in range(len(state.jobs)):
            resume_suspended(state, index, state.jobs[index].allotted)

"""The steps of a processor: account its time, pick a process, switch, be preempted, put to sleep and wake.

Rules where the paper is silent (docs/decisions.md, Simulator): every dispatch costs a
context switch, also from idle; a switch in progress is not abandoned, so a process that becomes
ready during it costs a second one.

Detours are noise of the operating system: kernel threads and other programs run for a short while at random
times. A detour takes time, and makes the local scheduler choose again. Without detours, jobs whose processes
take turns in opposite orders on two processors would stay out of step for ever. With detours the processes of
a job run together by chance: with n jobs, in one slice of n. A detour prolongs the activity of the processor:
a computation, a spin, a switch. It does not delay the message that ends a wait, and has no effect on an idle
processor. Source: Beckman, Iskra, Yoshii, Coghlan, "The Influence of Operating Systems on the Performance of
Collective Operations at Extreme Scale", 2006.
"""

from harness.simulator.compiled import hot, step
from harness.simulator.processes import model as m
from harness.simulator.processes import quota
from harness.simulator.processes.costs import drawn, exponential_ns, operation_of, switch_cost_ns
from harness.simulator.processes.events import mark, set_activity, set_alarm
from harness.simulator.processes.local import eevdf, scheduler
from harness.simulator.processes.model import Records, State
from harness.simulator.processes.ready_queues import balance, choose_processor, claim, count, enqueue, fetch


@hot
def compute(state: State, p: int, process: Records) -> None:
    """The running process computes for its remaining time from now on."""
    charge(state, p, m.COMPUTING)
    set_activity(state, p, process.remaining_ns)
    if state.machine.slices_end:
        watch_slice(state, p)


@step
def watch_slice(state: State, p: int) -> None:
    """Have the end of the slice noticed when it comes, if the computing process asks for its CPU time.

    Synthetic programs do so all the time, and Linux counts the time of a process that asks. Who spins, or
    computes without asking, loses the processor at the next clock tick.
    """
    processor = state.processors[p]
    end_ns = eevdf.slice_end_ns(state, p)
    if end_ns < processor.activity_ns and operation_of(state, processor.current).marks & m.OVERRUNS:
        processor.slice_end_ns = max(end_ns, state.clock.now_ns)
        set_alarm(state, p)


@step
def end_slice(state: State, p: int) -> None:
    """The slice of the computing process is over, if a detour has not delayed it and no other runs now."""
    processor = state.processors[p]
    processor.slice_end_ns = state.clock.never_ns
    if processor.current == m.NOBODY or processor.switching or processor.category != m.COMPUTING:
        return
    if eevdf.settle(state, p):
        slice_over(state, p)
    else:
        watch_slice(state, p)


@step
def begin_to_yield(state: State, p: int) -> None:
    """The running process begins to spin: from now on it yields regularly, if its MPI does (sched_yield)."""
    processor = state.processors[p]
    processor.spin_began_ns = state.clock.now_ns
    watch_yields(state, p)


@step
def watch_yields(state: State, p: int) -> None:
    """Have the next yield noticed at which the process that spins may lose its processor.

    A yield makes Linux choose again, which otherwise happens at ticks and wake-ups only. Another process runs
    if this one has had more than the average, or its slice has ended; none runs if the quota is used up.
    """
    processor = state.processors[p]
    yield_interval_ns = state.jobs[state.processes[processor.current].job].yield_interval_ns
    processor.yield_at_ns = state.clock.never_ns
    if yield_interval_ns > 0 and not operation_of(state, processor.current).marks & m.POLLS:
        end_ns = eevdf.may_end_ns(state, p)
        if state.machine.quota_ns > 0:
            end_ns = min(end_ns, quota.share_end_ns(state, p))
        after_ns = max(state.clock.now_ns + 1, end_ns) - processor.spin_began_ns
        processor.yield_at_ns = processor.spin_began_ns - -after_ns // yield_interval_ns * yield_interval_ns
        set_alarm(state, p)


@step
def yields_now(state: State, p: int) -> bool:
    """Whether the running process spins, and yields meanwhile."""
    processor = state.processors[p]
    if not state.machine.yields or processor.current == m.NOBODY or processor.switching:
        return False
    process = state.processes[processor.current]
    spins = process.activity >= m.READING and process.handling == m.FREE
    return bool(spins and state.jobs[process.job].yield_interval_ns > 0)


@step
def give_away(state: State, p: int) -> None:
    """The process that spins yields: another one runs if it ranks above it."""
    state.processors[p].yield_at_ns = state.clock.never_ns
    if yields_now(state, p):
        if gives_way(state, p, state.processors[p].current):
            preempt(state, p, False, m.YIELDED)
        else:
            watch_yields(state, p)


@hot
def charge(state: State, p: int, category: int) -> None:
    """From now on processor ``p``'s time belongs to ``category``."""
    processor = state.processors[p]
    if processor.account != m.NOBODY:
        state.accounts[processor.account, processor.category] += state.clock.now_ns - processor.since_ns
    processor.account = processor.current
    processor.since_ns = state.clock.now_ns
    processor.category = category
    if state.clock.recording:
        record(state, p)


@step
def record(state: State, p: int) -> None:
    """Add a row to the timeline: for what processor ``p``'s time is used from now on."""
    clock = state.clock
    processor = state.processors[p]
    row = state.timeline[clock.recorded]
    row[0] = clock.now_ns
    row[1] = p
    row[2] = processor.current
    row[3] = processor.category
    row[4] = m.NOBODY
    if processor.category == m.COMMUNICATING and state.processes[processor.current].activity >= m.READING:
        row[4] = state.processes[processor.current].target
    clock.recorded += 1


@hot
def next_process(state: State, p: int) -> int:
    """The process that is to run next on processor ``p``, fetched from elsewhere if need be, or none."""
    if state.processors[p].throttled:
        return stand(state, p)
    if state.machine.queue != m.BOUND:
        fetch(state, p)
    q = scheduler.best(state, p)
    if state.machine.quota_ns > 0 and q != m.NOBODY and quota.stands_still(state, p):
        return stand(state, p)
    return q


@step
def stand(state: State, p: int) -> int:
    """Note since when processor ``p``, which the quota stops, has a ready process; returns none."""
    processor = state.processors[p]
    now_ns = state.clock.now_ns
    if processor.stood_ns > now_ns and count(state, p, m.READY) > 0:
        processor.stood_ns = now_ns
    return m.NOBODY


@hot
def gives_way(state: State, p: int, q: int) -> bool:
    """Whether process ``q`` of ``p`` may not run any more, or another one ranks above it."""
    if state.machine.quota_ns > 0 and quota.stands_still(state, p):
        return True
    return not state.processes[q].allowed or scheduler.outranked(state, p, q)


@hot
def dispatch(state: State, p: int, reason: int) -> None:
    """Begin to switch free processor ``p`` to the best ready process, or let it idle.

    ``reason`` is USUAL, NEW_SLOT or YIELDED.
    """
    processor = state.processors[p]
    if processor.current != m.NOBODY:
        state.accounts[processor.current, m.LEFT] = state.clock.now_ns
    q = next_process(state, p)
    if state.machine.quota_ns > 0 and q == m.NOBODY and processor.current != m.NOBODY:
        quota.give_back(state, p)
    processor.current = q
    if q == m.NOBODY:
        processor.switching = 0
        charge(state, p, m.IDLE)
        set_activity(state, p, m.NEVER_NS)
        return
    state.processes[q].state = m.TAKING_OVER
    cost_ns = switch_cost_ns(state, p, q, reason)
    processor.switching = 1
    processor.charged_ns = state.clock.now_ns
    if state.accounts[q, m.DISPATCHES] == 0:
        state.accounts[q, m.BEGAN] = state.clock.now_ns
    state.accounts[q, m.DISPATCHES] += 1
    charge(state, p, m.SWITCHING)
    set_activity(state, p, cost_ns)


@hot
def leave(state: State, p: int, to_state: int) -> None:
    """Take the processor from its running process, which keeps what is left of its activity."""
    processor = state.processors[p]
    process = state.processes[processor.current]
    now_ns = state.clock.now_ns
    left_ns = processor.activity_ns - now_ns
    scheduler.stop(state, p, process, to_state)
    if process.handling != m.FREE:
        process.handling_left_ns = left_ns
    else:
        process.remaining_ns = left_ns
    process.cpu_ns += now_ns - process.dispatched_ns
    process.state = to_state


@step
def preempt(state: State, p: int, first: bool, reason: int) -> None:
    """Make the running process ready, first or last of its priority, and run the best."""
    q = state.processors[p].current
    leave(state, p, m.READY)
    enqueue(state, q, first)
    dispatch(state, p, reason)


@step
def reconsider(state: State, p: int, reason: int) -> None:
    """Preempt the running process of ``p`` if another ranks above it, or it may not run any more.

    A processor that is switching checks this at the end of the switch, which then has its usual cost.
    """
    processor = state.processors[p]
    if processor.current == m.NOBODY:
        if next_process(state, p) != m.NOBODY:
            dispatch(state, p, reason)
    elif not processor.switching and gives_way(state, p, processor.current):
        preempt(state, p, True, reason)
    elif yields_now(state, p):
        watch_yields(state, p)


@step
def block(state: State, p: int) -> None:
    """The running process goes to sleep until its wait is over."""
    q = state.processors[p].current
    process = state.processes[q]
    leave(state, p, m.BLOCKED)
    process.blocked = 1
    process.kernel = 0
    dispatch(state, p, m.USUAL)
    if state.clock.recording:
        state.timeline[state.clock.recorded - 1, 4] = q


@step
def tick(state: State, p: int) -> None:
    """The clock tick of processor ``p``, and its starvation update if due.

    A tick during a switch charges no process.
    """
    processor = state.processors[p]
    processor.tick_ns += state.machine.tick_ns
    mark(state, p)
    q = processor.current
    if q != m.NOBODY and not processor.switching and scheduler.slice_ends(state, p, state.processes[q]):
        slice_over(state, p)
    if scheduler.update_is_due(state, p):
        update(state, p)
    if state.machine.ticks_do_more:
        go_on_at_tick(state, p)


@step
def go_on_at_tick(state: State, p: int) -> None:
    """What few machines do at a tick: draw how late the next one is, heed a quota, balance queues."""
    processor = state.processors[p]
    if len(state.tick_delay_ns) > 0:
        late_ns = drawn(processor, state.tick_delay_ns)
        processor.tick_ns += late_ns - processor.late_ns
        processor.late_ns = late_ns
        mark(state, p)
    busy = state.machine.quota_ns > 0 and processor.current != m.NOBODY
    if busy and quota.stands_still(state, p) and not processor.switching:
        preempt(state, p, True, m.USUAL)
    if state.machine.fair and state.machine.queue != m.BOUND and balance(state, p):
        reconsider(state, p, m.USUAL)


@step
def slice_over(state: State, p: int) -> None:
    """The running process goes behind the others of its priority, and runs on if it is best."""
    q = state.processors[p].current
    if state.machine.queue == m.AFFINITY:
        claim(state, p)  # before the process itself queues up
    enqueue(state, q, False)
    if next_process(state, p) == q:
        state.processes[q].state = m.RUNNING
        if state.machine.slices_end and state.processors[p].category == m.COMPUTING:
            watch_slice(state, p)
    else:
        leave(state, p, m.READY)
        dispatch(state, p, m.USUAL)


@step
def update(state: State, p: int) -> None:
    """The starvation update: new priorities for processes of ``p`` whose quantum began too long ago."""
    for k in range(state.processors[p].residents):
        q = state.residents[p, k]
        if scheduler.update(state, state.processes[q]):
            enqueue(state, q, False)
    reconsider(state, p, m.USUAL)


@step
def wake(state: State, q: int) -> None:
    """Wake blocked process ``q``; it has kernel priority until it has handled what woke it."""
    process = state.processes[q]
    process.kernel = 1
    if state.machine.queue != m.BOUND:
        choose_processor(state, q)
    scheduler.join(state, process)
    enqueue(state, q, False)
    reconsider(state, process.processor, m.USUAL)


@step
def sleep(state: State, p: int, length_ns: int) -> None:
    """The running process sleeps for that long."""
    processor = state.processors[p]
    process = state.processes[processor.current]
    process.activity = m.SLEEPING
    process.alarm_ns = state.clock.now_ns + length_ns
    processor.alarm_ns = min(processor.alarm_ns, process.alarm_ns)
    block(state, p)


@step
def os_noise(state: State, p: int) -> None:
    """Begin a detour on processor ``p``, and set the time of the next one."""
    processor = state.processors[p]
    length_ns = exponential_ns(processor, state.machine.os_noise_length_ns)
    gap_ns = exponential_ns(processor, state.machine.os_noise_interval_ns)
    processor.os_noise_at_ns = state.clock.now_ns + length_ns + 1 + gap_ns
    q = processor.current
    if q == m.NOBODY:
        return
    process = state.processes[q]
    # Only a fair scheduler looks for another process when an interrupt returns.
    if state.machine.fair and process.state == m.RUNNING and scheduler.outranked(state, p, q):
        preempt(state, p, True, m.USUAL)
    # No process is charged for the detour.
    processor.charged_ns += length_ns
    process.dispatched_ns += length_ns
    set_activity(state, p, processor.activity_ns - state.clock.now_ns + length_ns)

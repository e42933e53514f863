"""Skips events whose outcome follows from the program alone; no number changes by it.

While every processor runs a process of one job, all of them have just begun the same step, and no
message is under way, nobody interferes: a read takes its gap and a round trip, and a barrier
completes a round trip after the last process begins to wait. So the next barriers are calculated
for as long as every wait ends within its spin limit and nothing else can happen: no end of a slot,
no arrival, no alarm, no clock tick that may take a processor away. Ticks that cannot are carried out.

Nothing is skipped while a timeline is recorded, nor on machines on which messages cost processor
time or the local scheduler is ``eevdf``.
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.messages import (
    barrier_limit,
    read_limit,
    take_arrival,
    take_reply,
    waiting_rule,
)
from harness.simulator.processes.model import (
    CLOSING,
    COMMUNICATING,
    COMPUTE,
    COMPUTING,
    GAP,
    GOING,
    NOBODY,
    OPENING,
    READS,
    READY,
    SPUN,
    SYNCHRONIZING,
    State,
)
from harness.simulator.processes.processor import tick
from harness.simulator.processes.program import lacks_times, start_gap, start_phase


@hot
def may_skip(state: State, message: int) -> bool:
    """Whether ``message``, just handled, may have been the last that the processes waited for."""
    clock = state.clock[0]
    if clock.head != clock.tail or not message & 1 or not state.machine[0].skips or clock.status != GOING:
        return False
    process = state.processes[message >> 1]
    return bool(
        COMPUTE <= process.activity <= GAP
        and state.jobs[process.job].processes == len(state.processors)
        and state.processors[0].since_ns == clock.now_ns
    )


@step
def skip(state: State, index: int) -> None:
    """Let job ``index`` pass the barriers, then make the reads, that nobody disturbs."""
    clock = state.clock[0]
    began_ns = clock.now_ns
    quiet_ns = undisturbed_until(state, index)
    if quiet_ns <= began_ns:
        return
    while pass_barrier(state, index, quiet_ns):
        pass
    if state.processes[state.jobs[index].first].activity == GAP:
        read_on(state, index, quiet_ns)
    if clock.now_ns > began_ns:
        go_on(state)


@hot
def undisturbed_until(state: State, index: int) -> int:
    """Until when nobody but job ``index`` does anything; 0 if its processes are not in step."""
    clock = state.clock[0]
    first = state.processes[state.jobs[index].first]
    until_ns = clock.next_ns
    for p in range(len(state.processors)):
        processor = state.processors[p]
        q = processor.current
        if q == NOBODY or processor.switching or processor.since_ns != clock.now_ns:
            return 0
        process = state.processes[q]
        if process.job != index or process.activity != first.activity or process.phase != first.phase:
            return 0
        if process.activity == GAP and (
            process.read != first.read or processor.activity_ns != clock.now_ns + process.gap_ns
        ):
            return 0
        until_ns = min(until_ns, processor.alarm_ns)
        if has_rival(state, p):
            ticks = min(process.ticks_left, processor.ticks_to_update) - 1
            until_ns = min(until_ns, processor.tick_ns + ticks * state.machine[0].tick_period_ns)
    return int(until_ns)


@hot
def has_rival(state: State, p: int) -> bool:
    """Whether a process waits for its turn on processor ``p``."""
    for k in range(state.processors[p].residents):
        process = state.processes[state.residents[p, k]]
        if process.state == READY and process.allowed:
            return True
    return False


@hot
def pass_barrier(state: State, index: int, quiet_ns: int) -> bool:
    """Go on to the completion of the next barrier; False if that is too late, or somebody may block."""
    clock = state.clock[0]
    job = state.jobs[index]
    first = state.processes[job.first]
    trip_ns = 2 * state.machine[0].latency_ns
    computes = first.activity == COMPUTE
    opens = computes and job.opening
    ends_phase = not opens or job.reads == 0
    if ends_phase and first.phase + 1 == job.phases:
        return False
    if computes and lacks_times(state, job, first.phase):
        return False
    reads = 0
    if not opens:
        reads = job.reads if computes else job.reads - first.read
    rule = waiting_rule(job)
    if reads > 0 and read_limit(rule) < trip_ns:
        return False
    began_ns = clock.now_ns
    done_ns = reach_barrier(state, index, reads) + trip_ns
    if done_ns >= quiet_ns:
        return False
    for q in range(job.first, job.first + job.processes):
        process = state.processes[q]
        if barrier_limit(rule, process.estimate_ns) < done_ns - process.wait_began_ns:
            return False
    for q in range(job.first, job.first + job.processes):
        process = state.processes[q]
        process.activity = OPENING if opens else CLOSING
        process.blocked = 0
        state.accounts[q, COMPUTING] += process.wait_began_ns - began_ns - reads * trip_ns
        state.accounts[q, COMMUNICATING] += reads * trip_ns
        state.accounts[q, SYNCHRONIZING] += done_ns - process.wait_began_ns
        take_arrival(state, process)
    clock.now_ns = done_ns
    for q in range(job.first, job.first + job.processes):
        take_reply(state, q)
        begin_step(state, q, ends_phase)
    count_reads(state, index, reads)
    clock.messages += 2 * job.processes
    if computes:
        clock.timers += job.processes
    return True


@hot
def reach_barrier(state: State, index: int, reads: int) -> int:
    """Note when each process begins to wait at the next barrier, after its reads; returns the last time."""
    job = state.jobs[index]
    now_ns = state.clock[0].now_ns
    last_ns = now_ns
    for q in range(job.first, job.first + job.processes):
        process = state.processes[q]
        process.wait_began_ns = now_ns + reads * (process.gap_ns + 2 * state.machine[0].latency_ns)
        if process.activity == COMPUTE:
            process.wait_began_ns += state.compute_ns[process.phase & (len(state.compute_ns) - 1), q]
        last_ns = max(last_ns, process.wait_began_ns)
    return int(last_ns)


@hot
def begin_step(state: State, q: int, next_phase: bool) -> None:
    """Process ``q`` has passed a barrier: its next step is a phase, or the reads of this one."""
    process = state.processes[q]
    process.replied = 0
    process.read = 0
    process.activity = GAP
    if next_phase:
        process.activity = COMPUTE
        process.phase += 1
        process.gap_ns = state.gap_ns[process.phase & (len(state.gap_ns) - 1), q]


@hot
def read_on(state: State, index: int, quiet_ns: int) -> None:
    """All processes are about to read: make the reads that end in time, but for the last one."""
    clock = state.clock[0]
    job = state.jobs[index]
    first = state.processes[job.first]
    trip_ns = 2 * state.machine[0].latency_ns
    if read_limit(waiting_rule(job)) < trip_ns:
        return
    for q in range(job.first, job.first + job.processes):
        if state.processes[q].gap_ns != first.gap_ns:
            return
    each_ns = first.gap_ns + trip_ns
    reads = min(job.reads - 1 - first.read, (quiet_ns - 1 - clock.now_ns) // each_ns)
    for q in range(job.first, job.first + job.processes):
        state.processes[q].read += reads
        state.accounts[q, COMPUTING] += reads * first.gap_ns
        state.accounts[q, COMMUNICATING] += reads * trip_ns
    clock.now_ns += reads * each_ns
    count_reads(state, index, reads)


@hot
def count_reads(state: State, index: int, reads: int) -> None:
    """Count ``reads`` of each process, which all spun, with the ends of the gaps before them."""
    clock = state.clock[0]
    count = reads * state.jobs[index].processes
    waits = state.waits[index, READS, SPUN]
    waits[0] += count
    waits[1] += count * 2 * state.machine[0].latency_ns
    clock.messages += 2 * count
    clock.timers += count


@hot
def go_on(state: State) -> None:
    """Carry out the clock ticks of the time that was skipped, and let all begin their next step."""
    clock = state.clock[0]
    now_ns = clock.now_ns
    for p in range(len(state.processors)):
        processor = state.processors[p]
        while processor.tick_ns < now_ns:
            clock.now_ns = processor.tick_ns
            clock.timers += 1
            clock.ticks += 1
            tick(state, p)
        clock.now_ns = now_ns
        processor.since_ns = now_ns
        q = processor.current
        if state.processes[q].activity == COMPUTE:
            start_phase(state, p, q)
        else:
            start_gap(state, p, state.processes[q])

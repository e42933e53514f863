"""Skips events whose outcome follows from the program alone; no number changes by it.

While every processor runs a process of one job, all of them have just begun the same step, and no
message is under way, nothing interferes: a read takes its gap and a round trip, and a barrier
completes a round trip after the last process begins to wait. So the next barriers are calculated
for as long as every wait ends within its spin limit and nothing else can happen: no end of a slot,
no arrival, no alarm, no clock tick that may take a processor away. Ticks that cannot are simulated.

Nothing is skipped while a timeline is recorded or under a CPU quota, nor on machines on which messages cost
CPU time or the local scheduler is ``eevdf``.
"""

from harness.simulator.compiled import hot, step
from harness.simulator.processes import messages
from harness.simulator.processes import model as m
from harness.simulator.processes.costs import operation_of
from harness.simulator.processes.model import Records, State
from harness.simulator.processes.processor import compute, tick
from harness.simulator.processes.ready_queues import count


@hot
def may_skip(state: State, q: int) -> bool:
    """Whether the end of process ``q``'s wait may have been the last for which the processes waited."""
    if state.clock.head != state.clock.tail or not state.machine.skips or state.clock.status != m.GOING:
        return False
    process = state.processes[q]
    return bool(
        m.COMPUTE <= process.activity <= m.GAP
        and state.jobs[process.job].processes == len(state.processors)
        and state.processors[0].since_ns == state.clock.now_ns
    )


@step
def skip(state: State, index: int) -> None:
    """Let job ``index`` pass the barriers, then make the reads, that are not disturbed."""
    began_ns = state.clock.now_ns
    quiet_ns = undisturbed_until(state, index)
    if quiet_ns <= began_ns:
        return
    while pass_barrier(state, index, quiet_ns):
        pass
    if state.processes[state.jobs[index].first].activity == m.GAP:
        read_on(state, index, quiet_ns)
    if state.clock.now_ns > began_ns:
        carry_out_ticks(state)


@step
def undisturbed_until(state: State, index: int) -> int:
    """Until when only job ``index`` does anything; 0 if its processes are not in step."""
    first = state.processes[state.jobs[index].first]
    until_ns = state.clock.next_ns
    for p in range(len(state.processors)):
        processor = state.processors[p]
        q = processor.current
        if q == m.NOBODY or processor.switching or processor.since_ns != state.clock.now_ns:
            return 0
        process = state.processes[q]
        if process.job != index or process.activity != first.activity or process.at != first.at:
            return 0
        if process.reads != first.reads:
            return 0
        if (
            process.activity == m.GAP
            and processor.activity_ns != state.clock.now_ns + operation_of(state, q).value
        ):
            return 0
        until_ns = min(until_ns, processor.alarm_ns)
        if count(state, p, m.READY) > 0:
            ticks = min(process.ticks_left, processor.ticks_to_update) - 1
            until_ns = min(until_ns, processor.tick_ns + ticks * state.machine.tick_ns)
    return int(until_ns)


@hot
def ahead(state: State, q: int, count: int) -> Records:
    """The operation that process ``q`` begins after ``count`` others; 0 for the next."""
    process = state.processes[q]
    return state.operations[q, (process.at + count) & (state.operations.shape[1] - 1)]


@hot
def reads_of(operation: Records) -> int:
    """How many reads a process makes in an operation."""
    return int(operation.peer) if operation.code == m.READING else 0


@step
def pass_barrier(state: State, index: int, quiet_ns: int) -> bool:
    """Continue to the completion of the next barrier; False if that is too late, or a process may block.

    All processes compute, or are before a read, and have as many reads up to the barrier.
    """
    job = state.jobs[index]
    first = state.processes[job.first]
    trip_ns = 2 * state.machine.latency_ns
    computes = first.activity == m.COMPUTE
    reads = reads_of(ahead(state, job.first, 0)) if computes else first.reads + 1
    length = 2 if computes and reads > 0 else 1  # operations up to the barrier, the present one included
    few = first.filled - first.at <= state.operations.shape[1] >> 1
    if few or ahead(state, job.first, length).code == m.END:
        return False
    rule = messages.waiting_rule(job)
    if reads > 0 and messages.read_limit(rule) < trip_ns:
        return False
    began_ns = state.clock.now_ns
    done_ns = reach_barrier(state, index, computes, reads) + trip_ns
    if done_ns >= quiet_ns:
        return False
    for q in range(job.first, job.first + job.processes):
        process = state.processes[q]
        if messages.barrier_limit(rule, process.estimate_ns) < done_ns - process.wait_began_ns:
            return False
    for q in range(job.first, job.first + job.processes):
        process = state.processes[q]
        process.at += length
        process.activity = operation_of(state, q).code
        state.accounts[q, m.COMPUTING] += process.wait_began_ns - began_ns - reads * trip_ns
        state.accounts[q, m.COMMUNICATING] += reads * trip_ns
        state.accounts[q, m.SYNCHRONIZING] += done_ns - process.wait_began_ns
        messages.take_arrival(state, q)
    state.clock.now_ns = done_ns
    for q in range(job.first, job.first + job.processes):
        messages.take_reply(state, q)
        process = state.processes[q]
        following = ahead(state, q, 0)
        process.at += 1
        process.phase += following.marks & m.PASSES
        process.activity = m.COMPUTE if following.code == m.COMPUTE else m.GAP
        process.reads = max(reads_of(following) - 1, 0)
    count_reads(state, index, reads)
    state.clock.messages += 2 * job.processes
    if computes:
        state.clock.timers += job.processes
    return True


@step
def reach_barrier(state: State, index: int, computes: bool, reads: int) -> int:
    """Note when each process begins to wait at the barrier after so many reads; returns the last time.

    The reads of a phase have equal gaps.
    """
    job = state.jobs[index]
    last_ns = state.clock.now_ns
    for q in range(job.first, job.first + job.processes):
        process = state.processes[q]
        process.wait_began_ns = state.clock.now_ns
        if computes:
            process.wait_began_ns += operation_of(state, q).value
        if reads > 0:
            each_ns = ahead(state, q, 0 if computes else -1).value + 2 * state.machine.latency_ns
            process.wait_began_ns += reads * each_ns
        last_ns = max(last_ns, process.wait_began_ns)
    return int(last_ns)


@step
def read_on(state: State, index: int, quiet_ns: int) -> None:
    """All processes are about to read: make the reads that end in time, but for the last one."""
    job = state.jobs[index]
    gap_ns = operation_of(state, job.first).value
    trip_ns = 2 * state.machine.latency_ns
    if messages.read_limit(messages.waiting_rule(job)) < trip_ns:
        return
    for q in range(job.first, job.first + job.processes):
        if operation_of(state, q).value != gap_ns:
            return
    each_ns = gap_ns + trip_ns
    reads = min(state.processes[job.first].reads, (quiet_ns - 1 - state.clock.now_ns) // each_ns)
    for q in range(job.first, job.first + job.processes):
        state.processes[q].reads -= reads
        state.accounts[q, m.COMPUTING] += reads * gap_ns
        state.accounts[q, m.COMMUNICATING] += reads * trip_ns
    state.clock.now_ns += reads * each_ns
    count_reads(state, index, reads)


@step
def count_reads(state: State, index: int, reads: int) -> None:
    """Count ``reads`` of each process, which all spun, with the ends of the gaps before them."""
    of_all = reads * state.jobs[index].processes
    waits = state.waits[index, m.READS, m.SPUN]
    waits[0] += of_all
    waits[1] += of_all * 2 * state.machine.latency_ns
    state.clock.messages += 2 * of_all
    state.clock.timers += of_all


@step
def carry_out_ticks(state: State) -> None:
    """Simulate the clock ticks of the time that was skipped, and let all begin to compute now."""
    now_ns = state.clock.now_ns
    for p in range(len(state.processors)):
        processor = state.processors[p]
        while processor.tick_ns < now_ns:
            state.clock.now_ns = processor.tick_ns
            state.clock.timers += 1
            tick(state, p)
        state.clock.now_ns = now_ns
        processor.since_ns = now_ns
        q = processor.current
        state.processes[q].remaining_ns = operation_of(state, q).value
        compute(state, p, state.processes[q])

"""The steps of a running process: compute, wait at a barrier or for a lock, read, handle messages.

The steps below assume that the process runs on its processor. A wait ends by a reply,
which sets ``replied``; ``proceed`` then goes on with the program.
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.alarms import sleep, wake
from harness.simulator.processes.caches import load_set, pay
from harness.simulator.processes.events import send, set_activity, spin_until_look
from harness.simulator.processes.glances import glance, may_glance
from harness.simulator.processes.handling import complete_barrier, handle, handle_inbox, message_category
from harness.simulator.processes.local import scheduler, svr4
from harness.simulator.processes.looks import look, may_look
from harness.simulator.processes.messages import first_in_inbox, put_in_inbox, spin_limit, take_arrival
from harness.simulator.processes.model import (
    BLOCKED,
    BROADCASTING,
    CLOSING,
    COMMUNICATING,
    COMPUTE,
    DEPARTED,
    FINISHED,
    FREE,
    GAP,
    LOCKING,
    NOBODY,
    OPENING,
    READING,
    REFILL,
    RUNNING,
    SENDING,
    STARTING,
    SYNCHRONIZING,
    THINKING,
    Records,
    State,
)
from harness.simulator.processes.observing import observe
from harness.simulator.processes.processor import block, charge, compute, dispatch, leave, preempt
from harness.simulator.processes.ready_queues import enqueue
from harness.simulator.processes.replay import HERE, NO_WORD, end_step, go_on, hear, hear_word, start_step
from harness.simulator.processes.rests import asks_itself, overrun_ns, send_cost_ns
from harness.simulator.processes.sections import (
    ask_for_times,
    come_down,
    enter_section,
    has_left,
    lock_of,
    release,
    request,
    take_if_free,
    wait_for_holder,
)
from harness.simulator.processes.task_queue import safe_point


@hot
def lacks_times(state: State, job: Records, phase: int) -> bool:
    """Whether compute times must be drawn as soon as a process begins ``phase``."""
    return bool(phase + len(state.compute_ns) // 2 >= job.drawn and job.drawn < job.phases)


@hot
def start_phase(state: State, p: int, q: int) -> None:
    """Begin to compute; the first process that begins the second half of the drawn phases asks for more."""
    process = state.processes[q]
    job = state.jobs[process.job]
    row = process.phase & (len(state.compute_ns) - 1)
    if lacks_times(state, job, process.phase):
        state.clock[0].status = REFILL
        state.clock[0].subject = process.job
    process.activity = COMPUTE
    if job.reads > 0:
        process.gap_ns = state.gap_ns[row, q]
    process.remaining_ns = state.compute_ns[row, q] + overrun_ns(state, p)
    if state.machine[0].cache_bytes > 0:
        pay(state, q)
    compute(state, p, process)


@hot
def start_gap(state: State, p: int, process: Records) -> None:
    """Compute for a short while before the next read."""
    process.activity = GAP
    process.remaining_ns = process.gap_ns + overrun_ns(state, p)
    compute(state, p, process)


@hot
def finish_phase(state: State, p: int, q: int) -> None:
    """Go on with the next phase, or leave for good after the last one."""
    process = state.processes[q]
    job = state.jobs[process.job]
    process.phase += 1
    if process.phase < job.phases:
        start_phase(state, p, q)
        if state.machine[0].observe_ns > 0:
            observe(state, q)
        return
    leave(state, p, FINISHED)
    job.unfinished -= 1
    if job.unfinished == 0:
        job.finish_ns = state.clock[0].now_ns
        state.clock[0].status = DEPARTED
        state.clock[0].subject = process.job
    dispatch(state, p)


@hot
def proceed(state: State, p: int, q: int) -> None:
    """The wait of process ``q`` is over: go on with its program."""
    process = state.processes[q]
    job = state.jobs[process.job]
    process.replied = 0
    if state.machine[0].sends_differ:
        process.wait_ended_ns = state.clock[0].now_ns
    if process.activity == READING:
        process.read += 1
        if process.read < job.reads:
            start_gap(state, p, process)
        elif job.replays:
            go_on(state, p, q)
        else:
            ask(state, p, q, CLOSING)
    elif process.activity == OPENING and job.reads > 0:
        process.read = 0
        start_gap(state, p, process)
    elif process.activity == LOCKING:
        enter_section(state, p, q)
    elif job.replays:
        go_on(state, p, q)
    elif process.activity >= THINKING:
        start(state, p, q)
    else:
        finish_phase(state, p, q)


@step
def start(state: State, p: int, q: int) -> None:
    """Process ``q`` begins, or has slept until its user wanted something or its job could use it."""
    job = state.jobs[state.processes[q].job]
    if job.tasks:
        safe_point(state, p, q)
    elif job.replays:
        start_step(state, p, q)
    else:
        start_phase(state, p, q)


@hot
def ask(state: State, p: int, q: int, activity: int) -> None:
    """Send a read request or an arrival at a barrier, and wait for the reply."""
    process = state.processes[q]
    job = state.jobs[process.job]
    process.activity = activity
    process.blocked = 0
    if activity == READING:
        process.target = (
            job.first + state.targets[job.targets_at + process.read * job.processes + process.rank]
        )
        charge(state, p, COMMUNICATING)
    else:
        process.target = job.first
        charge(state, p, SYNCHRONIZING)
    if not state.machine[0].sends:
        start_wait(state, p, q)
        return
    cost_ns = send_cost_ns(state, p, q)
    if cost_ns == 0 and asks_itself(state, q):
        start_wait(state, p, q)
    else:
        process.handling = SENDING
        set_activity(state, p, cost_ns)


@hot
def start_wait(state: State, p: int, q: int) -> None:
    """The request leaves; handle the messages that came meanwhile, then spin."""
    process = state.processes[q]
    now_ns = state.clock[0].now_ns
    process.wait_began_ns = now_ns
    process.remaining_ns = spin_limit(state.jobs[process.job], process)
    process.spin_end_ns = now_ns + process.remaining_ns
    if not asks_itself(state, q):
        send(state, q << 1)
    elif process.activity == READING:
        process.replied = 1
    elif take_arrival(state, process):
        complete_barrier(state, q)
    if process.handling == BROADCASTING:
        set_activity(state, p, state.machine[0].send_ns)
    elif process.inbox_first == NOBODY or handle_inbox(state, p, q):
        spin(state, p, process)


@hot
def spin(state: State, p: int, process: Records) -> None:
    """Spin for the rest of the limit, or block if there is none."""
    if process.replied:
        set_activity(state, p, 0)
    elif process.activity == LOCKING and state.machine[0].activations:
        wait_for_holder(state, p, state.processors[p].current)
    elif process.remaining_ns > 0:
        if state.machine[0].looks:
            spin_and_look(state, p, process)
        else:
            set_activity(state, p, process.remaining_ns)
    else:
        block(state, p)


@step
def spin_and_look(state: State, p: int, process: Records) -> None:
    """Spin until the next look after others, if the process looks after any in such a wait."""
    machine = state.machine[0]
    period_ns = machine.look_ns if process.activity == LOCKING else machine.patience_ns
    if period_ns > 0 and process.activity <= LOCKING:
        spin_until_look(state, p, process, period_ns)
    else:
        set_activity(state, p, process.remaining_ns)


@step
def go_on_handling(state: State, p: int, q: int) -> None:
    """A piece of message handling that took time has ended."""
    process = state.processes[q]
    job = state.jobs[process.job]
    send_ns = state.machine[0].send_ns
    if process.handling == SENDING:
        process.handling = FREE
        start_wait(state, p, q)
        return
    if process.handling == BROADCASTING:
        send(state, (job.first + process.broadcast) << 1 | 1)
        process.broadcast += 1
        if process.broadcast == job.processes:
            process.handling = FREE
    else:
        process.handling = FREE
        handle(state, q, first_in_inbox(state, process))
    if process.handling == BROADCASTING:
        set_activity(state, p, send_ns)
    elif handle_inbox(state, p, q):
        resume(state, p, q)


@hot
def resume(state: State, p: int, q: int) -> None:
    """Every message is handled: sleep again, give way, or go on where the process was.

    An unblocked process gets a new user priority, and gives way to a process that ranks above it.
    """
    process = state.processes[q]
    if process.activity == LOCKING and not process.replied:
        take_if_free(state, q)
    if process.offers == HERE and process.activity >= READING:
        hear(state, q)
    if process.kernel:
        if not process.replied:
            block(state, p)
            return
        process.kernel = 0
        svr4.wake(state, process)
        if scheduler.outranked(state, p, q):
            preempt(state, p, True)
            return
    if process.replied:
        proceed(state, p, q)
    elif process.activity == STARTING:
        begin(state, p, q)
    elif process.activity < READING:
        compute(state, p, process)
    else:
        charge(state, p, COMMUNICATING if process.activity == READING else SYNCHRONIZING)
        looks = state.machine[0].patience_ns > 0 and process.activity <= CLOSING
        if state.machine[0].wall_clock_spin or looks:
            process.remaining_ns = process.spin_end_ns - state.clock[0].now_ns
        spin(state, p, process)


@step
def begin(state: State, p: int, q: int) -> None:
    """Process ``q`` runs for the first time."""
    if state.jobs[state.processes[q].job].think_ns > 0:
        think(state, p, q)
    else:
        start(state, p, q)


@hot
def take_over(state: State, p: int) -> None:
    """Processor ``p`` has switched: its process runs, unless a better one came up meanwhile."""
    processor = state.processors[p]
    q = processor.current
    process = state.processes[q]
    processor.switching = 0
    if not process.allowed or scheduler.outranked(state, p, q):
        enqueue(state, q, True)
        dispatch(state, p)
        return
    process.state = RUNNING
    process.dispatched_ns = state.clock[0].now_ns
    if state.machine[0].cache_bytes > 0:
        load_set(state, p, q)
    if process.handling != FREE:
        charge(state, p, message_category(process))
        set_activity(state, p, process.handling_left_ns)
    elif handle_inbox(state, p, q):
        resume(state, p, q)


@hot
def end_activity(state: State, p: int) -> None:
    """The activity of processor ``p``'s process has ended."""
    q = state.processors[p].current
    process = state.processes[q]
    job = state.jobs[process.job]
    if process.handling != FREE:
        go_on_handling(state, p, q)
    elif process.activity == GAP:
        end_gap(state, p, q)
    elif process.activity >= READING:
        if process.replied:
            proceed(state, p, q)
        elif may_look(state, process):
            look(state, p, q)
        elif may_glance(state, process):
            glance(state, p, q)
        else:
            block(state, p)
    elif job.thinks:
        end_burst(state, p, q)
    elif job.opening:
        ask(state, p, q, OPENING)
    elif job.locks > 0:
        end_stage(state, p, q)
    elif job.tasks or job.replays:
        end_piece(state, p, q)
    else:
        process.read = 0
        start_gap(state, p, process)


@hot
def end_gap(state: State, p: int, q: int) -> None:
    """Serve the requests that came meanwhile, then read: who asked goes on, and this process waits."""
    process = state.processes[q]
    if process.inbox_first != NOBODY:
        process.remaining_ns = 0
        if not handle_inbox(state, p, q):
            return
    ask(state, p, q, READING)


@step
def end_piece(state: State, p: int, q: int) -> None:
    """A task is over, or the processor time of a recorded step."""
    if state.jobs[state.processes[q].job].tasks:
        safe_point(state, p, q)
    elif not end_step(state, p, q):
        spin(state, p, state.processes[q])


@step
def end_stage(state: State, p: int, q: int) -> None:
    """A process of a job with locks has computed, or is at the end of its critical section."""
    process = state.processes[q]
    if process.activity == COMPUTE:
        if not request(state, p, q):
            spin(state, p, process)
        return
    # Whom the release wakes may take this processor: so the next phase comes first.
    number = lock_of(state, q)
    ask_for_times(state, q)
    left = has_left(state, q)
    finish_phase(state, p, q)
    if not left:
        release(state, number, state.jobs[process.job].lock)
    come_down(state, p, q)


@step
def end_burst(state: State, p: int, q: int) -> None:
    """A burst of a job of one process has ended: think before the next one, if there is a think time."""
    process = state.processes[q]
    job = state.jobs[process.job]
    state.bursts_ns[job.bursts_at + process.phase] = state.clock[0].now_ns - process.wait_began_ns
    process.wait_began_ns = state.clock[0].now_ns
    if job.think_ns == 0 or process.phase + 1 == job.phases:
        finish_phase(state, p, q)
    else:
        process.phase += 1
        think(state, p, q)


@step
def think(state: State, p: int, q: int) -> None:
    """Sleep until the user of an interactive job wants the next burst."""
    sleep(state, p, state.jobs[state.processes[q].job].think_ns)


@hot
def receive(state: State, message: int) -> None:
    """``message`` arrives: a running process handles it now, any other when it runs next.

    The message wakes a blocked process; a ready one finds it when its turn comes.
    """
    sender = state.processes[message >> 1]
    q = message >> 1
    if not message & 1:
        if sender.offers != NO_WORD:
            hear_word(state, q)
            return
        q = sender.target
        if sender.activity == READING and state.jobs[sender.job].served_by_network:
            state.clock[0].messages += 1
            send(state, message | 1)
            return
    process = state.processes[q]
    machine = state.machine[0]
    listens = process.state == RUNNING and (process.activity >= READING or not machine.handles_when_waiting)
    if listens and (not machine.message_costs or state.jobs[process.job].replays):
        handle(state, q, message)
        if process.replied:
            proceed(state, process.processor, q)
        return
    put_in_inbox(state, q, message)
    if process.state == BLOCKED:
        wake(state, q)
    elif listens and process.handling == FREE:
        interrupt(state, q)


@step
def interrupt(state: State, q: int) -> None:
    """Running process ``q`` puts its activity aside to handle a message, which takes time."""
    process = state.processes[q]
    p = process.processor
    process.remaining_ns = state.processors[p].activity_ns - state.clock[0].now_ns
    handle_inbox(state, p, q)

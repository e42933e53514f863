"""Two remedies against the preemption of processes in critical sections; the others are in ``locks``.

The do-not-preempt bit: a change of slot waits on processors whose process is in a critical section.

The bit is up from the moment at which a process asks for a lock until it leaves the section, but not while
it sleeps. Each processor looks again after ``deferral_ns``, at most ``deferrals`` times; the slot before
stays in force there meanwhile. The same on real ranks: ``coordinator.node.section_remedies``.

Scheduler activations: a holder that the slots have stopped runs on in the place of another of its job.

When a slot begins, when a stopped process is handed a lock, and when a process that has a processor begins to
wait for a stopped one, or goes on with it, the first process of its job that runs gives
its processor to the holder: for a context switch, the rest of the section, and a switch back. This is
like a detour (:mod:`.alarms`): it prolongs what the host of it does, and does not delay what ends a
wait. The holder is then stopped again, outside of its section. The same on real ranks:
``coordinator.node.section_remedies``.

Source: Anderson, Bershad, Lazowska, Levy, "Scheduler Activations", 1992.
"""

from __future__ import annotations

from harness.simulator.compiled import step
from harness.simulator.processes.events import set_activity, set_alarm
from harness.simulator.processes.local import svr4
from harness.simulator.processes.messages import count_wait, operation_of
from harness.simulator.processes.model import LOCKING, NOBODY, READY, RUNNING, SECTION, State
from harness.simulator.processes.processor import reconsider


@step
def must_wait(state: State, p: int) -> bool:
    """Whether the slot in force would stop the process of ``p`` in a section, or as it spins for one."""
    q = state.processors[p].current
    if q == NOBODY or state.slots[state.clock[0].slot, q]:
        return False
    process = state.processes[q]
    return bool(process.state == RUNNING and process.activity in (SECTION, LOCKING))


@step
def defer_slot(state: State) -> None:
    """A slot begins: put the change off where it must wait."""
    clock = state.clock[0]
    for p in range(len(state.processors)):
        processor = state.processors[p]
        pending = processor.deferrals_left > 0
        processor.deferrals_left = 0
        processor.deferral_ns = clock.never_ns
        if must_wait(state, p):
            processor.deferrals_left = state.machine[0].deferrals
            wait_on(state, p)
        elif pending:
            set_alarm(state, p)


@step
def wait_on(state: State, p: int) -> None:
    """Look again at processor ``p`` after a while."""
    processor = state.processors[p]
    processor.deferral_ns = state.clock[0].now_ns + state.machine[0].deferral_ns
    set_alarm(state, p)


@step
def retry_slot(state: State, p: int) -> None:
    """Change the slot on processor ``p`` now, or put it off once more."""
    processor = state.processors[p]
    clock = state.clock[0]
    clock.ticks += 1
    processor.deferral_ns = clock.never_ns
    processor.deferrals_left -= 1
    if processor.deferrals_left > 0 and must_wait(state, p):
        wait_on(state, p)
        return
    processor.deferrals_left = 0
    for k in range(processor.residents):
        q = state.residents[p, k]
        state.processes[q].allowed = state.slots[clock.slot, q]
    clock.changing = 1
    reconsider(state, p)
    clock.changing = 0


@step
def host_of(state: State, q: int) -> int:
    """The processor of the first process of ``q``'s job that runs, without an activation; or NOBODY."""
    job = state.jobs[state.processes[q].job]
    for mate in range(job.first, job.first + job.processes):
        process = state.processes[mate]
        runs = process.state == RUNNING and process.allowed
        if runs and state.processors[process.processor].activated == NOBODY:
            return int(process.processor)
    return NOBODY


@step
def activate(state: State, q: int) -> int:
    """Process ``q``, if it is stopped with a lock that it has, runs on where its job does.

    Returns that processor, NOBODY if no activation begins.
    """
    process = state.processes[q]
    if process.state != READY or process.allowed or process.is_activated or process.has_left:
        return NOBODY
    p = host_of(state, q)
    if p == NOBODY:
        return NOBODY
    if process.activity == LOCKING:
        if process.kernel:
            process.kernel = 0
            svr4.wake(state, process)
        count_wait(state, process)
        process.remaining_ns = operation_of(state, q).value
        process.activity = SECTION
        process.replied = 0
    process.is_activated = 1
    processor = state.processors[p]
    length_ns = state.machine[0].switch_ns + process.remaining_ns
    processor.activated = q
    processor.activation_end_ns = state.clock[0].now_ns + length_ns
    length_ns += state.machine[0].switch_ns
    processor.charged_ns += length_ns
    state.processes[processor.current].dispatched_ns += length_ns
    set_activity(state, p, processor.activity_ns - state.clock[0].now_ns + length_ns)
    set_alarm(state, p)
    return p


@step
def activate_all(state: State) -> None:
    """A slot has begun: let all processes that it has stopped in their sections run on."""
    for q in range(len(state.processes)):
        if state.processes[q].activity == SECTION:
            activate(state, q)


@step
def part(state: State, p: int) -> int:
    """The activation on processor ``p`` is over; returns the process."""
    processor = state.processors[p]
    q = int(processor.activated)
    processor.activated = NOBODY
    processor.activation_end_ns = state.clock[0].never_ns
    state.processes[q].is_activated = 0
    return q


@step
def call_off(state: State, q: int) -> None:
    """Process ``q`` has left its section on its own processor before its activation was over."""
    for p in range(len(state.processors)):
        if state.processors[p].activated == q:
            part(state, p)
            set_alarm(state, p)

"""The do-not-preempt bit: a change of slot waits on processors whose process is in a critical section.

The bit is up from the moment at which a process asks for a lock until it leaves the section, but not while
it sleeps. Each processor looks after ``put_off_ns`` again, at most ``put_offs`` times; the slot before stays
in force there meanwhile. The same on real ranks: ``coordinator.node.do_not_preempt``.
"""

from __future__ import annotations

from harness.simulator.compiled import step
from harness.simulator.processes.events import set_alarm
from harness.simulator.processes.model import LOCKING, NOBODY, RUNNING, SECTION, State
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
def put_off(state: State) -> None:
    """A slot begins: put the change off where it must wait."""
    clock = state.clock[0]
    for p in range(len(state.processors)):
        processor = state.processors[p]
        pending = processor.put_offs_left > 0
        processor.put_offs_left = 0
        processor.put_off_ns = clock.never_ns
        if must_wait(state, p):
            processor.put_offs_left = state.machine[0].put_offs
            wait_on(state, p)
        elif pending:
            set_alarm(state, p)


@step
def wait_on(state: State, p: int) -> None:
    """Look again at processor ``p`` after a while."""
    processor = state.processors[p]
    processor.put_off_ns = state.clock[0].now_ns + state.machine[0].put_off_ns
    set_alarm(state, p)


@step
def look_again(state: State, p: int) -> None:
    """Change the slot on processor ``p`` now, or put it off once more."""
    processor = state.processors[p]
    clock = state.clock[0]
    clock.ticks += 1
    processor.put_off_ns = clock.never_ns
    processor.put_offs_left -= 1
    if processor.put_offs_left > 0 and must_wait(state, p):
        wait_on(state, p)
        return
    processor.put_offs_left = 0
    for k in range(processor.residents):
        q = state.residents[p, k]
        state.processes[q].allowed = state.slots[clock.slot, q]
    clock.changing = 1
    reconsider(state, p)
    clock.changing = 0

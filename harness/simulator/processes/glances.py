"""Processes that spin for a lock look after whoever has it: scheduler-conscious waiting, and inheritance.

A look, ``look_ns`` after the wait began and after each time as long, takes no time. If the holder does not
run, then under scheduler-conscious waiting the process sleeps until it gets the lock; under priority
inheritance it lifts the holder, which runs before all others of its processor until it leaves its section. A
process never lifts one of its own processor, but sleeps. The spin limit counts wall-clock time here.

The same on real ranks: ``workloads/locks/lock.c``. Sources: Kontothanassis, Wisniewski, Scott,
"Scheduler-Conscious Synchronization", 1997; Sha, Rajkumar, Lehoczky, "Priority Inheritance Protocols", 1990.
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.events import spin_until_look
from harness.simulator.processes.model import LOCKING, NOBODY, READY, RUNNING, Records, State
from harness.simulator.processes.processor import block, reconsider
from harness.simulator.processes.sections import lock_of


@hot
def may_glance(state: State, process: Records) -> bool:
    """Whether a wait for a lock goes on beyond the look that is due now."""
    looks = state.machine[0].look_ns > 0 and process.activity == LOCKING
    return bool(looks and process.spin_end_ns > state.clock[0].now_ns)


@step
def glance(state: State, p: int, q: int) -> None:
    """Running process ``q`` looks after the holder of the lock that it spins for."""
    owner = state.locks[lock_of(state, q)].owner
    if owner != NOBODY and state.processes[owner].state != RUNNING:
        if not state.machine[0].lifts or state.processes[owner].processor == p:
            block(state, p)
            return
        lift(state, owner)
    spin_until_look(state, p, state.processes[q], state.machine[0].look_ns)


@step
def lift(state: State, owner: int) -> None:
    """If ``owner`` is ready, it runs before all others of its processor, until it leaves its section."""
    process = state.processes[owner]
    if process.state == READY:
        process.lifted = 1
        reconsider(state, process.processor)

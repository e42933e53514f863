"""The local schedulers by name, and the questions that the kernel asks a processor's own one.

Two families answer: Linux's fair scheduler (:mod:`.eevdf`), and the schedulers with a dispatch
table (:mod:`.svr4`; round robin, SCHED_RR and first come, first served are special cases of it). The
kernel asks at a clock tick, at the starvation update, and when a process enters or wakes.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.simulator.compiled import hot, step
from harness.simulator.processes.local import eevdf, svr4
from harness.simulator.processes.local.svr4 import Table
from harness.simulator.processes.model import BLOCKED, NOBODY, READY, Records, State


@hot
def join(state: State, process: Records) -> None:
    """Prepare a new or a blocked process that is about to be ready."""
    if state.machine[0].fair:
        eevdf.place(state, process)


@hot
def best(state: State, p: int) -> int:
    """The ready process that is to run next on processor ``p``, or NOBODY."""
    if state.machine[0].inheritance:
        q = inherits(state, p)
        if q != NOBODY:
            return q
    if state.machine[0].fair:
        return eevdf.best(state, p)
    return svr4.best(state, p)


@hot
def outranked(state: State, p: int, q: int) -> bool:
    """Whether running process ``q`` has to give way to a ready one of processor ``p``."""
    if state.machine[0].inheritance:
        if state.processes[q].inherits:
            return False
        if inherits(state, p) != NOBODY:
            return True
    if state.machine[0].fair:
        return eevdf.outranked(state, p, q)
    return svr4.outranked(state, p, q)


@step
def inherits(state: State, p: int) -> int:
    """The ready process of ``p`` that inherits a priority above all others, or NOBODY."""
    for k in range(state.processors[p].residents):
        process = state.processes[state.residents[p, k]]
        if process.inherits and process.state == READY and process.allowed:
            return int(state.residents[p, k])
    return NOBODY


@hot
def stop(state: State, p: int, process: Records, to_state: int) -> None:
    """The running process leaves processor ``p``: it blocks, or others have their turn."""
    if state.machine[0].fair:
        if to_state == BLOCKED:
            eevdf.sleep(state, p, process)
        else:
            eevdf.settle(state, p)


@hot
def turn_ends(state: State, p: int, process: Records) -> bool:
    """Whether the clock tick ends the turn of the running process.

    A tick in which a process has kernel priority charges nobody.
    """
    if state.machine[0].fair:
        return eevdf.settle(state, p)
    return not process.kernel and svr4.tick(state, process)


@hot
def update_is_due(state: State, p: int) -> bool:
    """Whether this clock tick brings processor ``p``'s starvation update; fair schedulers have none."""
    if state.machine[0].fair:
        return False
    processor = state.processors[p]
    processor.ticks_to_update -= 1
    if processor.ticks_to_update > 0:
        return False
    processor.ticks_to_update = svr4.TICKS_PER_UPDATE
    return True


class LocalScheduler(NamedTuple):
    """A dispatch table and the other differences between local schedulers.

    Attributes:
        table: its dispatch table.
        boosts_woken: whether a process that a message has woken goes before all others until it has
            handled it.
        tick_ns: period of the clock tick.
    """

    table: Table
    boosts_woken: bool = False
    tick_ns: int = 10_000_000


KNOWN = {
    "svr4": LocalScheduler(svr4.table(), boosts_woken=True),  # Dusseau et al. 1996, section 3.3
    # The same "by simply altering the tunable tables of the SVR4 scheduler to have one quantum length and one
    # priority" (section 7.2): that of the real-time class's middle priorities, 100 ms. A process for which a
    # message comes runs at once only where it "is the only runnable process".
    "round-robin": LocalScheduler(svr4.turns(10)),
    "eevdf": LocalScheduler(svr4.turns(svr4.ENDLESS), tick_ns=eevdf.TICK_NS),  # its rules read no table
    # SCHED_RR of Linux with one priority, and the default of /proc/sys/kernel/sched_rr_timeslice_ms, 100 ms:
    # sched(7); Linux 6.18, kernel/sched/rt.c: task_tick_rt, enqueue_task_rt.
    "rr": LocalScheduler(svr4.turns(25), tick_ns=eevdf.TICK_NS),
    # SCHED_FIFO of POSIX 1003.1b with one priority: a process keeps its processor until it blocks or ends. If
    # waits spin for ever, jobs that come first on different processors never finish.
    "fifo": LocalScheduler(svr4.turns(svr4.ENDLESS)),
}

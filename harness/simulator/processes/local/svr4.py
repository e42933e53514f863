"""The time-sharing class of UNIX System V Release 4, as in Solaris 2.

Sixty user priorities; each has a row in a dispatch table that users may replace:

    quantum   ticks that a process may run before its priority changes
    tqexp     its new priority when it has used them up
    slpret    its new priority when it returns from a sleep after more than maxwait seconds, or
              has been running for so long
    maxwait   seconds (updates) since its quantum began, beyond which slpret or lwait applies
    lwait     its new priority when it has been ready for more than maxwait seconds

The rules follow ``ts_tick``, ``ts_wakeup``, ``ts_update_list`` and ``ts_trapret`` in
Solaris's ``ts.c``. Sources: Goodheart and Cox, The Magic Garden Explained, 1994, chapter 4; manual page
ts_dptbl(4); Dusseau et al. 1996, section 3.3.

A dispatch table of one row gives local schedulers with one priority: a process that wakes, or whose turn is
over, queues up behind the ready processes, and the starvation update changes nothing.
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.model import BLOCKED, NOBODY, READY, Records, State

TICKS_PER_UPDATE = 100
"""Clock ticks from one starvation update to the next (Dusseau et al. 1996, section 3.3)."""

KERNEL_PRIORITY = 1 << 20
"""Above every priority of a user."""

QUANTUM, TQEXP, SLPRET, MAXWAIT, LWAIT = range(5)

Table = list[tuple[int, int, int, int, int]]


def table() -> Table:
    """The default dispatch table of Solaris 2: 60 rows, quanta in ticks of 10 ms."""
    rows: Table = []
    for last, quantum, slpret, maxwait, lwait in (
        (9, 20, 50, 0, 50),
        (19, 16, 51, 0, 51),
        (29, 12, 52, 0, 52),
        (34, 8, 53, 0, 53),
        (39, 8, 54, 0, 54),
        (44, 4, 55, 0, 55),
        (45, 4, 56, 0, 56),
        (46, 4, 57, 0, 57),
        (48, 4, 58, 0, 58),
        (58, 4, 58, 0, 59),
        (59, 2, 59, 32000, 59),
    ):
        rows += [
            (quantum, max(0, priority - 10), slpret, maxwait, lwait)
            for priority in range(len(rows), last + 1)
        ]
    return rows


@step
def enter(state: State, process: Records) -> None:
    """Give a new process the middle priority and a full quantum."""
    process.priority = (len(state.table) - 1) // 2
    process.ticks_left = state.table[process.priority, QUANTUM]
    process.seconds_waiting = 0


@hot
def tick(state: State, process: Records) -> bool:
    """Charge a clock tick; True if the quantum is used up, so that others have their turn."""
    process.ticks_left -= 1
    if process.ticks_left > 0:
        return False
    process.priority = state.table[process.priority, TQEXP]
    process.ticks_left = state.table[process.priority, QUANTUM]
    process.seconds_waiting = 0
    return True


@step
def update(state: State, process: Records) -> bool:
    """Count one more second; True if a ready process gets another priority, and must queue anew.

    A process with kernel priority does not change. A ready process that keeps its priority also
    keeps its place and its quantum (``ts_update_list``). A running process gets the priority after
    a sleep (``ts_trapret``); a sleeping process gets it when it wakes.
    """
    if process.kernel:
        return False
    process.seconds_waiting += 1
    if process.state == BLOCKED or process.seconds_waiting <= state.table[process.priority, MAXWAIT]:
        return False
    process.seconds_waiting = 0
    ready = process.state == READY
    priority = state.table[process.priority, LWAIT if ready else SLPRET]
    if ready and priority == process.priority:
        return False
    process.priority = priority
    process.ticks_left = state.table[priority, QUANTUM]
    return bool(ready)


@hot
def wake(state: State, process: Records) -> None:
    """Give a process whose message has come its user priority after a sleep, if it slept too long."""
    if process.seconds_waiting > state.table[process.priority, MAXWAIT]:
        process.priority = state.table[process.priority, SLPRET]
        process.ticks_left = state.table[process.priority, QUANTUM]
        process.seconds_waiting = 0


@hot
def level(state: State, process: Records) -> int:
    """The priority of ``process``, temporary kernel priority included."""
    return KERNEL_PRIORITY if process.kernel and state.machine[0].boosts_woken else process.priority


@hot
def best(state: State, p: int) -> int:
    """The ready process that is to run next on processor ``p``, or NOBODY."""
    found = NOBODY
    highest = -1
    order = 0
    for k in range(state.processors[p].residents):
        q = state.residents[p, k]
        process = state.processes[q]
        if process.state == READY and process.allowed:
            its_level = level(state, process)
            if its_level > highest or (its_level == highest and process.order < order):
                found = q
                highest = its_level
                order = process.order
    return found


@hot
def outranked(state: State, p: int, q: int) -> bool:
    """Whether a ready process of processor ``p`` has a strictly higher priority than ``q``."""
    other = best(state, p)
    return other != NOBODY and level(state, state.processes[other]) > level(state, state.processes[q])


ENDLESS = 2**31 - 1


def turns(ticks: int) -> Table:
    """A dispatch table of one row, with turns of ``ticks`` clock ticks."""
    return [(ticks, 0, 0, ENDLESS, 0)]

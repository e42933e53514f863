"""The local schedulers by name, and the answers of a processor's own one to the kernel's questions.

There are two families: Linux's fair scheduler (:mod:`.eevdf`), and the schedulers with a dispatch table. The
kernel asks at a clock tick, at the starvation update, and when a process enters, wakes or blocks; nothing
outside this package asks which family it is.

A dispatch table is that of the time-sharing class of UNIX System V Release 4, as in Solaris 2. Each of its
user priorities has a row, which users may replace:

    quantum   ticks that a process may run before its priority changes
    tqexp     its new priority when it has used them up
    slpret    its new priority when it returns from a sleep after more than maxwait seconds, or
              has been running for that long
    maxwait   seconds (updates) since its quantum began, beyond which slpret or lwait applies
    lwait     its new priority when it has been ready for more than maxwait seconds

The rules follow ``ts_tick``, ``ts_wakeup``, ``ts_update_list`` and ``ts_trapret`` in Solaris's ``ts.c``. A
table of one row gives schedulers with one priority (round robin, SCHED_RR, first come, first served): a
process that wakes, or whose time slice is over, queues up behind the ready processes, and the starvation
update changes nothing.

Sources: Goodheart and Cox, The Magic Garden Explained, 1994, chapter 4; manual page ts_dptbl(4); Dusseau et
al. 1996, section 3.3.
"""

from typing import NamedTuple

from harness.simulator.compiled import hot, step
from harness.simulator.processes.local import eevdf
from harness.simulator.processes.model import BLOCKED, NOBODY, READY, Records, State
from workloads.options import INHERITANCE

TICKS_PER_UPDATE = 100
"""Clock ticks from one starvation update to the next (Dusseau et al. 1996, section 3.3)."""

KERNEL_PRIORITY = 1 << 20  # above every priority of a user

ENDLESS = 2**31 - 1

QUANTUM, TQEXP, SLPRET, MAXWAIT, LWAIT = range(5)

Table = list[tuple[int, int, int, int, int]]


def solaris_table() -> Table:
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


def slices_of(ticks: int) -> Table:
    """A dispatch table of one row, with time slices of ``ticks`` clock ticks."""
    return [(ticks, 0, 0, ENDLESS, 0)]


class LocalScheduler(NamedTuple):
    """A dispatch table and the other differences between local schedulers."""

    table: Table  # its dispatch table
    # Whether a process that a message has woken goes before all others until it has handled it.
    boosts_woken: bool = False
    tick_ns: int = 10_000_000  # period of the clock tick


KNOWN = {
    "svr4": LocalScheduler(solaris_table(), boosts_woken=True),  # Dusseau et al. 1996, section 3.3
    # The same "by simply altering the tunable tables of the SVR4 scheduler to have one quantum length and one
    # priority" (section 7.2): that of the real-time class's middle priorities, 100 ms. A process for which a
    # message comes runs at once only where it "is the only runnable process".
    "round-robin": LocalScheduler(slices_of(10)),
    "eevdf": LocalScheduler(slices_of(ENDLESS), tick_ns=eevdf.TICK_NS),  # its rules read no table
    # SCHED_RR of Linux with one priority, and the default of /proc/sys/kernel/sched_rr_timeslice_ms, 100 ms:
    # sched(7); Linux 6.18, kernel/sched/rt.c: task_tick_rt, enqueue_task_rt.
    "rr": LocalScheduler(slices_of(25), tick_ns=eevdf.TICK_NS),
    # SCHED_FIFO of POSIX 1003.1b with one priority: a process keeps its processor until it blocks or ends. If
    # waits spin for ever, jobs that come first on different processors never finish.
    "fifo": LocalScheduler(slices_of(ENDLESS)),
}


@step
def enter(state: State, process: Records) -> None:
    """A new process is about to be ready, with the middle priority and a full quantum."""
    join(state, process)
    _give_priority(state, process, (len(state.table) - 1) // 2)


@hot
def join(state: State, process: Records) -> None:
    """Prepare a new or a blocked process that is about to be ready."""
    if state.machine.fair:
        eevdf.place(state, process)


@hot
def _give_priority(state: State, process: Records, priority: int) -> None:
    process.priority = priority
    process.ticks_left = state.table[priority, QUANTUM]
    process.seconds_waiting = 0


@hot
def best(state: State, p: int) -> int:
    """The ready process that is to run next on processor ``p``, or none."""
    if state.machine.remedy == INHERITANCE:
        q = _inherits(state, p)
        if q != NOBODY:
            return q
    if state.machine.fair:
        return eevdf.best(state, p)
    return _highest(state, p)


@hot
def outranked(state: State, p: int, q: int) -> bool:
    """Whether running process ``q`` has to give way to a ready one of processor ``p``."""
    if state.machine.remedy == INHERITANCE:
        if state.processes[q].inherits:
            return False
        if _inherits(state, p) != NOBODY:
            return True
    if state.machine.fair:
        return eevdf.outranked(state, p, q)
    other = _highest(state, p)
    return other != NOBODY and _level(state, state.processes[other]) > _level(state, state.processes[q])


@hot
def _highest(state: State, p: int) -> int:
    """The ready process of ``p`` with the highest priority, the first of equals, or none."""
    found = NOBODY
    highest = -1
    order = 0
    for k in range(state.processors[p].residents):
        q = state.residents[p, k]
        process = state.processes[q]
        if process.state == READY and process.allowed:
            level = _level(state, process)
            if level > highest or (level == highest and process.order < order):
                found = q
                highest = level
                order = process.order
    return found


@hot
def _level(state: State, process: Records) -> int:
    """The priority of ``process``, temporary kernel priority included."""
    return KERNEL_PRIORITY if process.kernel and state.machine.boosts_woken else process.priority


@step
def _inherits(state: State, p: int) -> int:
    """The ready process of ``p`` that inherits a priority above all others, or none."""
    for k in range(state.processors[p].residents):
        process = state.processes[state.residents[p, k]]
        if process.inherits and process.state == READY and process.allowed:
            return int(state.residents[p, k])
    return NOBODY


@hot
def stop(state: State, p: int, process: Records, to_state: int) -> None:
    """The running process leaves processor ``p``: it blocks, or others have their turn."""
    if state.machine.fair:
        if to_state == BLOCKED:
            eevdf.sleep(state, p, process)
        else:
            eevdf.settle(state, p)


@hot
def wake(state: State, process: Records) -> None:
    """Give a process whose message has come its user priority after a sleep, if it slept too long."""
    if process.seconds_waiting > state.table[process.priority, MAXWAIT]:
        _give_priority(state, process, state.table[process.priority, SLPRET])


@hot
def slice_ends(state: State, p: int, process: Records) -> bool:
    """Whether the clock tick ends the time slice of the running process.

    A tick in which a process has kernel priority charges no process.
    """
    if state.machine.fair:
        return eevdf.settle(state, p)
    if process.kernel:
        return False
    process.ticks_left -= 1
    if process.ticks_left > 0:
        return False
    _give_priority(state, process, state.table[process.priority, TQEXP])
    return True


@hot
def update_is_due(state: State, p: int) -> bool:
    """Whether this clock tick brings processor ``p``'s starvation update; fair schedulers have none."""
    if state.machine.fair:
        return False
    processor = state.processors[p]
    processor.ticks_to_update -= 1
    if processor.ticks_to_update > 0:
        return False
    processor.ticks_to_update = TICKS_PER_UPDATE
    return True


@step
def update(state: State, process: Records) -> bool:
    """Count one more second; True if a ready process gets another priority, and must queue again.

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
    _give_priority(state, process, priority)
    return bool(ready)

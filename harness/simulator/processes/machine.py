"""The machine to simulate and the jobs to put on it, as validated plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.topology import FLAT, Topology
from coordinator.view import ExecutionTime, Machine
from harness.simulator.processes import local
from harness.simulator.processes.local import one_priority
from harness.simulator.processes.local.svr4 import Table
from harness.simulator.processes.replayed_program import ReplayedProgram
from workloads.machine import QUEUES, TICKS_PER_S, check_values, lost_processors
from workloads.program import Program
from workloads.validation import InputError, flag, number, one_of, whole

SPIN_CLOCKS = ("processor", "wall")


@dataclass(frozen=True)
class SimulatedMachine:
    """Processors with a local scheduler each, and a network.

    The defaults are the machine of Dusseau et al. 1996, sections 3.2 and 3.3.

    Attributes:
        processors: how many.
        context_switch_us: cost of a dispatch, and of a visit (``remedies``).
        switch_scatter_us: how much more or less than that a dispatch costs, all values equally likely; no
            dispatch costs less than 0. Empty if all cost the same.
        rest_us: times for which a process has not run, or not communicated, ascending. Between two of them
            chance decides which one's costs count, so that the mean goes in a straight line; below the
            first one the other is no rest, and beyond the last one its costs count.
        rested_switch_us: for each rest, of a dispatch of a process that waits and has not run for so long,
            all values equally likely; in place of ``context_switch_us``.
        rested_send_us: for each rest, additional time to send a read request or an arrival at a barrier if
            the last wait ended so long ago, all values equally likely.
        overrun_us: by how much longer than its program asks a computation takes, all values equally likely.
            Empty for nothing. Recorded programs compute as long as recorded.
        wakeup_us: additional cost of dispatching a process that a message has just woken.
        idle_wakeup_us: the same on a processor that was idle; by default ``wakeup_us``.
        latency_us: one-way time of a message; none is lost, each is one packet.
        rule_switch_us, rule_latency_us: costs of a context switch and a message that waiting rules
            assume; by default the true ones.
        local: name of the local scheduler (``harness.simulator.processes.local.KNOWN``).
        dispatch_table: rows of (quantum, tqexp, slpret, maxwait, lwait), lowest priority
            first, in place of the local scheduler's own.
        quantum_ms: quantum of round-robin; None for the default.
        timers: whether ticks and updates of different processors are "independent", or
            "synchronised".
        reads_served_by: whether the addressed "process" answers a read, or the "network" without
            that process; ``read = "rma"`` chooses the network for one program.
        send_us: processor time to send a message.
        receive_us: processor time to handle a message that has arrived.
        serve_us: processor time to look up the value that a read asks for.
        poll_us: time until a waiting process notices a message.
        messages_to_self: whether a root's arrival at its own barrier, and a read from itself,
            are messages over the network, as in the paper; else they need no message and no
            time, as in ``workloads.messaging``.
        handles_when_waiting: whether a running process handles messages only while it
            waits, as a program does that polls; else also while it computes.
        tick_us: the clock tick; by default the local scheduler's own.
        tick_lateness_us: how late a clock tick takes a processor from its process, all values equally
            likely; empty for never late. They are shorter than a tick.
        slice_us: the slice of ``eevdf``; by default Linux's for two processors.
        slot_cost_us: time that the first, the second, ... processor loses by a slot switch;
            further processors lose the last value; empty for nothing.
        lateness_us: how late slots end, all values equally likely; empty for never late.
        detour_gap_us: mean time between detours of a processor (``alarms``); 0 for none.
        detour_length_us: mean length of a detour.
        spin_clock: whether a spin limit counts "processor" time of the process, or "wall" time,
            which also passes while the process is preempted.
        topology, sides: how the processors are connected (``coordinator.topology``).
        hop_latency_us: additional one-way time of a message for every hop; its latency is
            constant without.
        lost: processors that are faulty from the beginning: no policy puts a process on one.
        queue: where ready processes wait (``ready_queues``).
        within_job: whether processes that are not bound to one processor stay on those of their job.
        cache_kb: cache of each processor in KiB; 0 for none, so that working sets cost nothing.
        reload_us: time to load all of it.
    """

    processors: int = 32
    context_switch_us: float = 200.0
    switch_scatter_us: Sequence[float] = ()
    rest_us: Sequence[float] = ()
    rested_switch_us: Sequence[Sequence[float]] = ()
    rested_send_us: Sequence[Sequence[float]] = ()
    overrun_us: Sequence[float] = ()
    wakeup_us: float = 0.0
    idle_wakeup_us: float | None = None
    latency_us: float = 10.0
    rule_switch_us: float | None = None
    rule_latency_us: float | None = None
    local: str = "svr4"
    dispatch_table: Sequence[Sequence[int]] | None = None
    quantum_ms: float | None = None
    timers: str = "independent"
    reads_served_by: str = "process"
    send_us: float = 0.0
    receive_us: float = 0.0
    serve_us: float = 0.0
    poll_us: float = 0.0
    messages_to_self: bool = True
    handles_when_waiting: bool = False
    tick_us: float | None = None
    tick_lateness_us: Sequence[float] = ()
    slice_us: float | None = None
    slot_cost_us: Sequence[float] = ()
    lateness_us: Sequence[float] = ()
    detour_gap_us: float = 0.0
    detour_length_us: float = 0.0
    spin_clock: str = "processor"
    topology: str = FLAT.name
    sides: Sequence[int] = ()
    hop_latency_us: float = 0.0
    lost: Sequence[int] = ()
    queue: str = "bound"
    within_job: bool = False
    cache_kb: float = 0.0
    reload_us: float = 0.0

    def __post_init__(self) -> None:
        whole("processors", self.processors, least=1)
        check_values({key: value for key, value in vars(self).items() if value is not None})
        for key in ("wakeup_us", "detour_gap_us", "detour_length_us"):
            number(key, getattr(self, key), least=0)
        for key in ("idle_wakeup_us", "rule_switch_us", "rule_latency_us"):
            if getattr(self, key) is not None:
                number(key, getattr(self, key), least=0)
        for key in ("tick_us", "slice_us"):
            if getattr(self, key) is not None:
                number(key, getattr(self, key), above=0)
        for key in ("overrun_us", "slot_cost_us", "lateness_us", "tick_lateness_us"):
            for index, value in enumerate(getattr(self, key)):
                number(f"{key}[{index}]", value, least=0)
        for index, value in enumerate(self.switch_scatter_us):
            number(f"switch_scatter_us[{index}]", value)
        self._check_rests()
        for index, value in enumerate(self.tick_lateness_us):
            if value * 1e3 >= self.tick_ns:
                rule = f"must be shorter than the clock tick of {self.tick_ns / 1e3:g} us"
                raise InputError(f"tick_lateness_us[{index}]", value, rule, "give shorter times")
        flag("messages_to_self", self.messages_to_self)
        flag("handles_when_waiting", self.handles_when_waiting)
        flag("within_job", self.within_job)
        one_of("spin_clock", self.spin_clock, SPIN_CLOCKS)
        self._check_queue()
        self.seen()
        lost_processors(vars(self), self.processors)

    def _check_rests(self) -> None:
        last_us = 0.0
        for index, rest_us in enumerate(self.rest_us):
            number(f"rest_us[{index}]", rest_us, above=last_us)
            last_us = rest_us
        for key in ("rested_switch_us", "rested_send_us"):
            rows = getattr(self, key)
            lengths = {len(row) for row in rows}
            if rows and (len(rows) != len(self.rest_us) or len(lengths) > 1 or 0 in lengths):
                rule = f"must have a row for each of the {len(self.rest_us)} rests, all of one length above 0"
                raise InputError(key, rows, rule, "give each time in rest_us as many values, or give no rows")
            for index, value in enumerate(value for row in rows for value in row):
                number(f"{key}[{index // len(rows[0])}][{index % len(rows[0])}]", value, least=0)

    def _check_queue(self) -> None:
        one_of("queue", self.queue, QUEUES)
        possible = {"eevdf": ("bound", "stealing"), "svr4": ("bound",)}.get(self.local, QUEUES)
        if self.queue not in possible:
            rule = f"the simulated local scheduler {self.local!r} can have the queues {', '.join(possible)}"
            raise InputError("queue", self.queue, rule, 'write local = "rr" in [machine], or bind = true')

    def seen(self) -> Machine:
        """The machine as a policy sees it.

        Raises:
            InputError: if its topology does not fit its processors.
        """
        return Machine(self.processors, Topology.of(vars(self), self.processors))

    @property
    def tick_ns(self) -> int:
        """The clock tick in force."""
        return local.KNOWN[self.local].tick_ns if self.tick_us is None else round(self.tick_us * 1e3)

    def table(self) -> Table:
        """The dispatch table in force."""
        if self.quantum_ms is not None:
            return one_priority.turns(round(self.quantum_ms * TICKS_PER_S / 1000))
        if self.dispatch_table is None:
            return local.KNOWN[self.local].table()
        return [(row[0], row[1], row[2], row[3], row[4]) for row in self.dispatch_table]


@dataclass(frozen=True)
class SimulatedJob:
    """A job of the workload.

    Attributes:
        number: of the job; numbers go up from 0.
        program: of each process.
        arrival_s: when it arrives.
        moldable: whether a policy may start it with another number of processes.
        think_us: None for a parallel job. Else the job is one process without any
            communication, which sleeps for this long before each compute phase: an
            interactive job whose user thinks, or with 0 a sequential one.
        estimate: of its execution time, for policies that use one.
        replay: what its processes do in place of the program's phases; ``program`` then has their number
            only.
    """

    number: int
    program: Program
    arrival_s: float = 0.0
    moldable: bool = False
    think_us: float | None = None
    estimate: ExecutionTime | None = None
    replay: ReplayedProgram | None = None

    def __post_init__(self) -> None:
        number("arrival_s", self.arrival_s, least=0)
        if self.think_us is None:
            return
        number("think_us", self.think_us, least=0)
        if self.program.processes != 1:
            raise InputError(
                "program.processes",
                self.program.processes,
                "a job that thinks has one process",
                "write processes = 1, or several jobs",
            )

    @property
    def think_ns(self) -> int:
        """How long its user thinks before each burst; 0 for other jobs."""
        return round((self.think_us or 0) * 1e3)


def replaying(
    number: int, replay: ReplayedProgram, arrival_s: float = 0.0, estimate: ExecutionTime | None = None
) -> SimulatedJob:
    """The job of a recorded program; its ``program`` has as many processes and phases of its longest step."""
    longest_us = max(1.0, replay.longest_ns() / 1e3)
    program = Program(processes=replay.processes, granularity_us=longest_us, phases=1)
    return SimulatedJob(number, program, arrival_s, estimate=estimate, replay=replay)

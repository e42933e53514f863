"""The machine to simulate and the jobs to put on it, as validated plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from coordinator.topology import FLAT, Topology
from coordinator.view import ExecutionTime, Machine
from coordinator.workload import SubmittedJob
from harness.simulator.processes.local import eevdf
from harness.simulator.processes.local.scheduler import KNOWN, Table, slices_of
from harness.simulator.processes.model import BOUND, MACHINE, Integers, Records, State
from harness.simulator.processes.operations import ReplayedProgram
from workloads.constants import CONSTANTS, MachineConstants, Rows
from workloads.machine import QUEUES, TICKS_PER_S, check_values, lost_processors
from workloads.program import Program
from workloads.validation import InputError, flag, number, one_of, whole

SPIN_CLOCKS = ("processor", "wall")


@dataclass(frozen=True)
class SimulatedMachine(MachineConstants):
    """Processors with a local scheduler each, and a network.

    The defaults are the machine of Dusseau et al. 1996, sections 3.2 and 3.3.

    ``MachineConstants`` explains what a host has, too. All samples of a constant are equally likely. Recorded
    programs compute as long as recorded, without ``overrun_us``.

    Attributes:
        processors: how many.
        context_switch_us: cost of a dispatch, and of an activation (``locks``).
        switch_deviation_us: how much more or less than that a dispatch costs; none costs less than 0.
        remote_wakeup_us: the context switch that waiting rules assume. By what it exceeds ``local_switch_us``
            a dispatch of a process that a message has just woken costs more. 0: ``context_switch_us``.
        local_switch_us: the part of a wake-up that is the switch. 0: ``context_switch_us``.
        idle_wakeup_us: the wake-up of a processor that was idle. 0: ``remote_wakeup_us``.
        idle_times_us: ascending. Between two of them chance decides which one's costs count, so that the mean
            goes in a straight line; below the first one the other has no costs, and beyond the last one its
            costs count.
        switch_after_idle_us: of a dispatch of a process that waits and has not run for that long, in place of
            ``context_switch_us``.
        send_after_idle_us: additional time to send a read request or an arrival at a barrier if the last wait
            ended so long ago.
        tick_us, slice_us: 0 for the local scheduler's own. ``tick_delay_us`` is shorter than a tick.
        queried_slice_us: about a slice where slices end at once; 0, or longer, where they end at the next
            clock tick.
        slot_cost_us: of the first, the second, ... processor; further processors lose the last value.
        poll_us: time until a waiting process notices a message.
        cache_kb: cache of each processor in KiB; 0 for none, so that working sets cost nothing.
        latency_us: one-way time of a message; none is lost, each is one packet.
        rule_latency_us: the latency that waiting rules assume; by default the true one.
        local: name of the local scheduler (``harness.simulator.processes.local.scheduler.KNOWN``).
        dispatch_table: rows of (quantum, tqexp, slpret, maxwait, lwait), lowest priority
            first, in place of the local scheduler's own.
        quantum_ms: quantum of round-robin; None for the default.
        timers: whether ticks and updates of different processors are "independent", or
            "synchronised".
        reads_served_by: whether the addressed "process" answers a read, or the "network" without
            that process; ``read = "rma"`` chooses the network for one program.
        messages_to_self: whether a root's arrival at its own barrier, and a read from itself,
            are messages over the network, as in the paper; else they need no message and no
            time, as in ``workloads.messaging``.
        handles_when_waiting: whether a running process handles messages only while it
            waits, as a program does that polls; else also while it computes.
        spin_clock: whether a spin limit counts "processor" time of the process, or "wall" time,
            which also passes while the process is preempted.
        topology, sides: how the processors are connected (``coordinator.topology``).
        hop_latency_us: additional one-way time of a message for every hop; its latency is
            constant without.
        lost: processors that are faulty from the beginning: no policy puts a process on one.
        queue: where ready processes wait (``ready_queues``).
        within_job: whether processes that are not bound to one processor stay on the processors of their job.
    """

    processors: int = 32
    context_switch_us: float = 200.0
    latency_us: float = field(default=10.0, kw_only=True)
    rule_latency_us: float | None = None
    local: str = "svr4"
    dispatch_table: Sequence[Sequence[int]] | None = None
    quantum_ms: float | None = None
    timers: str = "independent"
    reads_served_by: str = "process"
    messages_to_self: bool = True
    handles_when_waiting: bool = False
    spin_clock: str = "processor"
    topology: str = FLAT.name
    sides: Sequence[int] = ()
    hop_latency_us: float = 0.0
    lost: Sequence[int] = ()
    queue: str = "bound"
    within_job: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("processors", self.processors, minimum=1)
        check_values({key: value for key, value in vars(self).items() if value is not None})
        self.check()
        if self.rule_latency_us is not None:
            number("rule_latency_us", self.rule_latency_us, minimum=0)
        for index, value in enumerate(self.tick_delay_us):
            if value * 1e3 >= self.tick_ns:
                raise InputError(
                    f"tick_delay_us[{index}]",
                    value,
                    f"must be shorter than the clock tick of {self.tick_ns / 1e3:g} us",
                    "give shorter times",
                )
        flag("messages_to_self", self.messages_to_self)
        flag("handles_when_waiting", self.handles_when_waiting)
        flag("within_job", self.within_job)
        one_of("spin_clock", self.spin_clock, SPIN_CLOCKS)
        possible = {"eevdf": ("bound", "stealing"), "svr4": ("bound",)}.get(self.local, QUEUES)
        if self.queue not in possible:
            queues = " or ".join(possible)
            raise InputError(
                "queue",
                self.queue,
                f"cannot be simulated with local = {self.local!r}, whose queues must be {queues}",
                'write local = "rr" in [machine], or bind = true',
            )
        self.seen()
        lost_processors(vars(self), self.processors)

    def seen(self) -> Machine:
        """The machine as a policy sees it.

        Raises:
            InputError: if its topology does not fit its processors.
        """
        return Machine(self.processors, Topology.of(vars(self), self.processors))

    @property
    def tick_ns(self) -> int:
        """The clock tick in force."""
        return round(self.tick_us * 1e3) or KNOWN[self.local].tick_ns

    @property
    def wakeups_ns(self) -> list[int]:
        """By how much dispatching costs more after a message, on a busy processor and on an idle one."""
        switch_us = self.local_switch_us or self.context_switch_us
        wakeups_us = self.remote_wakeup_us, self.idle_wakeup_us or self.remote_wakeup_us
        return [round(max(0.0, wakeup_us - switch_us) * 1e3) for wakeup_us in wakeups_us]

    def table(self) -> Table:
        """The dispatch table in force."""
        if self.quantum_ms is not None:
            return slices_of(round(self.quantum_ms * TICKS_PER_S / 1000))
        if self.dispatch_table is None:
            return KNOWN[self.local].table
        return [(row[0], row[1], row[2], row[3], row[4]) for row in self.dispatch_table]


def fill(record: Records, machine: SimulatedMachine, *, timeline: bool, caches: bool) -> None:
    """Fill in the kernel's record of a machine (``model.MACHINE``)."""
    for one in CONSTANTS:
        if one.in_ns in (MACHINE.names or ()):
            record[one.in_ns] = round(getattr(machine, one.name) * 1e3)
    record.tick_ns = machine.tick_ns
    record.slice_ns = record.slice_ns or eevdf.SLICE_NS
    # Slices end at once if measured ones exceed a slice by less than a quarter of the time to the next tick.
    to_tick_ns = -record.slice_ns % record.tick_ns
    beyond_slice_ns = record.queried_slice_ns - record.slice_ns
    record.slices_end = (
        machine.local == "eevdf" and record.queried_slice_ns > 0 and 4 * beyond_slice_ns < to_tick_ns
    )
    record.context_switch_ns = round(machine.context_switch_us * 1e3)
    record.wakeup_beyond_switch_ns, record.idle_wakeup_beyond_switch_ns = machine.wakeups_ns
    record.hop_latency_ns = round(machine.hop_latency_us * 1e3)
    record.messages_to_self = machine.messages_to_self
    record.handles_when_waiting = machine.handles_when_waiting
    record.wall_clock_spin = machine.spin_clock == "wall"
    samples = samples_ns(machine)
    record.sends = record.send_ns > 0 or samples["send_after_idle_ns"].any()
    record.fair = machine.local == "eevdf"
    record.network_serves_reads = machine.reads_served_by == "network"
    record.boosts_woken = KNOWN[machine.local].boosts_woken
    record.queue = QUEUES.index(machine.queue)
    ticks_late = samples["tick_delay_ns"].any()
    record.ticks_do_more = ticks_late or (record.fair and record.queue != BOUND)
    record.cache_bytes = round(machine.cache_kb * 1024) if caches else 0
    others_ns = record.receive_ns + record.serve_ns + record.poll_ns
    record.message_costs = record.sends or others_ns > 0
    like_paper = machine.messages_to_self and not (
        machine.handles_when_waiting or record.message_costs or samples["overrun_ns"].any()
    )
    record.reorders = record.hop_latency_ns > 0
    constant = record.latency_ns > 0 and not record.reorders
    plain = record.queue == BOUND and record.cache_bytes == 0 and not ticks_late
    record.skips = like_paper and constant and plain and not record.fair and not timeline


def samples_ns(machine: SimulatedMachine) -> dict[str, Integers]:
    """The arrays of ``model.State`` from which costs and times are drawn; empty where nothing is."""
    arrays = [(one, _rows_ns if one.kind == Rows else _whole_ns) for one in CONSTANTS]
    found = {
        one.in_ns: made(getattr(machine, one.name)) for one, made in arrays if one.in_ns in State._fields
    }
    kept = {"switch_delay_ns", "switch_after_idle_ns"}  # every slot has a delay, and some switches are free
    if len(found["switch_after_idle_ns"]) > 0:
        kept.add("switch_deviation_ns")  # what a process draws that has not been idle
    return {name: array if name in kept or array.any() else array[:0] for name, array in found.items()}


def _whole_ns(times_us: Sequence[float]) -> Integers:
    return np.array([round(time_us * 1e3) for time_us in times_us or (0.0,)])


def _rows_ns(rows_us: Sequence[Sequence[float]]) -> Integers:
    return np.array([_whole_ns(row) for row in rows_us] or np.zeros((0, 1)), dtype=np.int64)


@dataclass(frozen=True)
class SimulatedJob(SubmittedJob):
    """A job of the workload. Numbers go up from 0, and estimates are for policies that use one."""

    program: Program  # of each process
    moldable: bool = False  # whether a policy may start it with another number of processes
    # None for a parallel job. Else the job is one process without any communication, which sleeps for this
    # long before each compute phase: an interactive job whose user thinks, or with 0 a sequential one.
    think_us: float | None = None
    # What its processes do in place of the program's phases; ``program`` then has their number only.
    replay: ReplayedProgram | None = None
    # The true one, for policies that are told; None if unknown.
    execution_time: ExecutionTime | None = None

    def __post_init__(self) -> None:
        number("arrival_s", self.arrival_s, minimum=0)
        if self.think_us is None:
            return
        number("think_us", self.think_us, minimum=0)
        if self.program.processes != 1:
            rule, remedy = "a job that thinks has one process", "write processes = 1, or several jobs"
            raise InputError("program.processes", self.program.processes, rule, remedy)

    @property
    def arrival_ns(self) -> int:
        return round(self.arrival_s * 1e9)

    @property
    def think_ns(self) -> int:
        """How long its user thinks before each burst; 0 for other jobs."""
        return round((self.think_us or 0) * 1e3)


def replaying(number: int, replay: ReplayedProgram, arrival_s: float = 0.0) -> SimulatedJob:
    """The job of a recorded program; its ``program`` has as many processes and phases of its longest step."""
    longest_us = max(1.0, replay.longest_ns() / 1e3)
    program = Program(processes=replay.processes, granularity_us=longest_us, phases=1)
    return SimulatedJob(number, program, arrival_s, replay=replay)

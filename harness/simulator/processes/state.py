"""Makes the arrays of a simulation, and puts jobs and slots into them."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coordinator.view import Decision
from harness.simulator.processes import model as m
from harness.simulator.processes.local.scheduler import TICKS_PER_UPDATE
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine, fill, samples_ns
from harness.simulator.processes.model import Integers, Records, State
from harness.simulator.processes.operations import Operations, phase_length
from harness.simulator.processes.ready_queues import BALANCE_TICKS
from workloads import waiting_rules
from workloads.patterns import TASKS
from workloads.program import Program
from workloads.waiting_rules import Waiting

TIMELINE_ROWS = 1 << 16
AT_HAND = 1 << 18
"""Operations for which there is room in all rings together ..."""

LEAST_AT_HAND, MOST_AT_HAND = 1 << 10, 1 << 15
"""... and in each, if programs are so long."""

REMEMBERED = 32  # messages of a channel of which it is known when they arrive: the last ones


def allocate(machine: SimulatedMachine, jobs: Sequence[SimulatedJob], timeline: bool) -> State:
    """An idle machine with room for ``jobs``, at time 0."""
    processes = sum(job.program.processes for job in jobs)
    bursts = [job.program.phase_count() if job.think_ns else 0 for job in jobs]
    locks = [job.program.locks for job in jobs]
    leaves = _power_of_two(machine.processors)
    caches = machine.cache_kb > 0 and any(job.program.working_set_bytes for job in jobs)
    residents = sum(_most_residents(job, machine) for job in jobs)
    channels = [0 if job.replay is None else len(job.replay.channels) for job in jobs]
    under_way = (2 if any(channels) else 1) * processes
    replays = any(job.replay for job in jobs)
    seen = machine.seen()
    spaced = range(machine.processors if machine.hop_latency_us > 0 else 1)
    state = State(
        clock=_records(1, m.CLOCK)[0],
        machine=_records(1, m.MACHINE)[0],
        processes=_records(processes, m.PROCESS),
        processors=_records(machine.processors, m.PROCESSOR),
        jobs=_records(len(jobs), m.JOB),
        locks=_records(max(1, sum(locks)), m.LOCK),
        places=_places(len(jobs), machine),
        residents=np.zeros((machine.processors, residents), dtype=np.int32),
        timers=np.full(2 * leaves, m.NEVER_NS, dtype=np.int64),
        stale=np.zeros(machine.processors, dtype=np.int32),
        messages=np.full(_power_of_two(under_way + 2), m.NEVER_NS, dtype=np.int64),
        hops=np.array([[seen.hops(a, b) for b in spaced] for a in spaced], dtype=np.int16),
        bursts_ns=np.zeros(sum(bursts), dtype=np.int64),
        operations=np.zeros((processes, _room(jobs)), m.OPERATION).view(np.recarray),
        partners=np.zeros((processes, max(1, *(job.program.reads_per_phase for job in jobs))), np.int32),
        channels=_records(max(1, sum(channels)), m.CHANNEL),
        arrivals=np.zeros((max(1, sum(channels)), REMEMBERED if sum(channels) else 1), dtype=np.int64),
        samples=np.zeros((processes + len(jobs), len(waiting_rules.new_sample(0))), dtype=np.int64),
        waits=np.zeros((len(jobs), 4, 2, 2), dtype=np.int64),
        accounts=np.zeros((processes, m.LEFT + 1), dtype=np.int64),
        turns=np.zeros((machine.processors, processes) if caches else (1, 1), dtype=np.int64),
        moved=np.zeros((machine.processors, m.LEFT + 1), dtype=np.int64),
        **samples_ns(machine),
        slots=np.zeros((1, processes), dtype=np.int8),
        slot_ns=np.zeros(1, dtype=np.int64),
        table=np.array(machine.table(), dtype=np.int32),
        timeline=np.zeros((TIMELINE_ROWS + 8 * machine.processors if timeline else 1, 5), dtype=np.int64),
    )
    fill(state.machine, machine, timeline=timeline, caches=caches)
    clock = state.clock
    if replays:
        state.machine.reorders = 1
        yielding = any(job.replay is not None and job.replay.yield_interval_ns > 0 for job in jobs)
        state.machine.yields = machine.local == "eevdf" and yielding
        state.machine.skips = 0  # it skips phases of patterns only
    clock.shift = max(2 * processes, leaves).bit_length()
    clock.never_ns = clock.quota_at_ns = clock.slot_end_ns = m.NEVER_NS >> clock.shift
    clock.recording = TIMELINE_ROWS if timeline else 0
    state.locks.owner = m.NOBODY
    state.jobs.usable = [job.program.processes for job in jobs]
    state.jobs.channels = channels
    parts = {"first": state.jobs.usable, "channels_at": channels, "locks_at": locks, "bursts_at": bursts}
    for name, each in parts.items():  # where each job's part begins
        state.jobs[name] = [0, *itertools.accumulate(each)][:-1]
    return state


def _room(jobs: Sequence[SimulatedJob]) -> int:
    """How many operations of each process are at hand; half of them are more than a phase."""
    lengths = [phase_length(job.program) for job in jobs]
    every = max(length * job.program.phase_count() for length, job in zip(lengths, jobs, strict=True)) + 1
    room = min(MOST_AT_HAND, max(LEAST_AT_HAND, AT_HAND // sum(job.program.processes for job in jobs)))
    if not any(job.replay for job in jobs):
        room = min(room, 2 * every)
    return _power_of_two(max(room, 4 * max(lengths) + 8))


def _places(jobs: int, machine: SimulatedMachine) -> NDArray[np.int8]:
    """Where processes that are not bound may be, by job and processor."""
    bound = machine.queue == "bound"
    places = np.full((1, 1) if bound else (jobs, machine.processors), not machine.within_job, dtype=np.int8)
    if not bound:
        places[:, list(machine.lost)] = 0
    return places


def _most_residents(job: SimulatedJob, machine: SimulatedMachine) -> int:
    """How many processes of ``job`` can be on one processor."""
    if has_tasks(job) or machine.queue != "bound":
        return job.program.processes
    return math.ceil(job.program.processes / (machine.processors - len(machine.lost)))


def start_timers(state: State, machine: SimulatedMachine, random: np.random.Generator) -> None:
    """Give each processor the phases of its clock tick and starvation timer."""
    count = machine.processors
    tick_ns = machine.tick_ns
    ticks = random.integers(tick_ns, size=count) + 1
    updates = random.integers(TICKS_PER_UPDATE, size=count) + 1
    independent = machine.timers == "independent"
    processors = state.processors
    processors.current = processors.account = processors.activated = m.NOBODY
    processors.category = m.IDLE
    processors.random = ticks
    processors.given_ns = -1
    processors.ticks_to_balance = BALANCE_TICKS
    state.clock.random = ticks[0]
    costs = machine.slot_cost_us or (0.0,)
    processors.slot_cost_ns = [round(costs[min(p, len(costs) - 1)] * 1e3) for p in range(count)]
    processors.activity_ns = processors.alarm_ns = processors.os_noise_at_ns = state.clock.never_ns
    processors.deferral_ns = processors.activation_end_ns = processors.slice_end_ns = state.clock.never_ns
    processors.yield_at_ns = state.clock.never_ns
    if machine.os_noise_interval_us > 0:
        gaps = random.exponential(machine.os_noise_interval_us * 1e3, size=count)
        processors.alarm_ns = processors.os_noise_at_ns = gaps.astype(np.int64) + 1
    processors.tick_ns = ticks if independent else tick_ns
    processors.ticks_to_update = updates if independent else TICKS_PER_UPDATE
    processors.stale = 1
    state.stale[:] = range(count)
    state.clock.stale = count


def has_tasks(job: SimulatedJob) -> bool:
    """Whether the job has a central queue of tasks."""
    return job.program.pattern == TASKS


def enter_job(
    state: State, index: int, job: SimulatedJob, program: Program, placement: Sequence[int], waiting: Waiting
) -> None:
    """Fill in the records of a job that has been placed; the kernel lets its processes in.

    Of a job with a queue of tasks more processes may come than it has places; they go to these in turn.
    """
    count = program.processes
    record = state.jobs[index]
    record.processes = record.unfinished = count
    record.message_costs = state.machine.message_costs and job.replay is None
    record.allotted = len(placement)
    by_network = program.read == "rma" or state.machine.network_serves_reads
    record.served_by_network = by_network and job.replay is None
    record.served_ns = -1
    record.estimate_ns = record.learned_ns = record.greatest_report_ns = waiting_rules.UNKNOWN_NS
    record.min_report_ns = waiting_rules.FOREVER_NS
    for field, value in waiting._asdict().items():
        record[field] = value
    if job.replay is not None and waiting.rule == waiting_rules.SPIN:
        record.yield_interval_ns = job.replay.yield_interval_ns
    state.samples[len(state.processes) + index] = waiting_rules.new_sample(0)
    processes = state.processes[record.first : record.first + count]
    processes.state = m.ENTERING
    processes.job = index
    processes.rank = np.arange(count)
    processes.source = record.first + (0 if has_tasks(job) else processes.rank)
    processes.processor = [placement[rank % len(placement)] for rank in range(count)]
    processes.home = processes.processor
    if state.machine.queue != m.BOUND:
        state.places[index, list(placement)] = 1
    processes.inbox_first = m.NOBODY
    processes.set_bytes = program.working_set_bytes
    processes.warm_on = m.NOBODY
    processes.estimate_ns = processes.previous_wait_ns = waiting_rules.UNKNOWN_NS
    processes.alarm_ns = state.clock.never_ns
    processes.wait_began_ns = processes.wait_ended_ns = state.clock.now_ns
    state.partners[record.first : record.first + count, : program.reads_per_phase] = program.reads()
    for rank in range(count):
        state.samples[record.first + rank] = waiting_rules.new_sample(rank)
    if job.replay is not None:
        channels = state.channels[record.channels_at : record.channels_at + record.channels]
        channels.sender, channels.receiver = record.first + job.replay.channels[:, :2].T
        channels.rendezvous = job.replay.channels[:, 2]


def put(state: State, rows: slice, block: Operations) -> None:
    """Put the next operations of some processes in place of used ones; the last block ends with END."""
    processes = state.processes[rows]
    begin = int(processes.filled[0])
    count = block.shape[1]
    columns = state.operations.shape[1]
    assert begin + count - int(processes.at.min()) < columns, "an operation in progress would be overwritten"
    ring = state.operations[rows].view(np.ndarray).view(m.RAW)
    at = begin % columns
    fits = min(count, columns - at)
    ring[:, at : at + fits] = block.view(m.RAW)[:, :fits]
    ring[:, : count - fits] = block.view(m.RAW)[:, fits:]
    if begin == 0 and block["code"][0, 0] != m.TASK:
        state.operations["marks"][rows, 0] &= ~m.PASSES
    processes.filled = m.ENDLESS if block["code"][0, -1] == m.END else begin + count


def queue_up(state: State, newcomers: Sequence[int], random: np.random.Generator) -> State:
    """Put the processes of newly placed jobs into their processors' queues, in random order.

    Returns the state, with more room for residents if a processor has more than ever before.

    ``newcomers`` are indices of job records. Source: Dusseau et al. 1996, section 3.3.
    """
    records = [state.jobs[index] for index in newcomers]
    if not records:
        return state
    arrived = np.concatenate([np.arange(r.first, r.first + r.processes) for r in records])
    placed = state.processes.processor[arrived]
    most = int(np.max(state.processors.residents + np.bincount(placed, minlength=len(state.processors))))
    if most > state.residents.shape[1]:
        more = most - state.residents.shape[1]
        state = state._replace(residents=np.pad(state.residents, ((0, 0), (0, more))))
    of_each = [(p, arrived[placed == p]) for p in np.unique(placed)]
    for p, newcomers_here in of_each:
        processor = state.processors[p]
        state.residents[p, processor.residents : processor.residents + len(newcomers_here)] = newcomers_here
        processor.residents += len(newcomers_here)
    shared = state.machine.queue in (m.CENTRAL, m.AFFINITY)
    for p, newcomers_here in [(0, arrived)] if shared else of_each:
        queue = random.permutation(newcomers_here)
        processor = state.processors[p]
        state.processes.order[queue] = processor.last_order + 1 + np.arange(len(queue))
        processor.last_order += len(queue)
    return state


def reallot(state: State, index: int, placement: Sequence[int]) -> None:
    """Give a job with a queue of tasks other processors, of which its processes learn at safe points."""
    record = state.jobs[index]
    record.allotted = len(placement)
    state.processes.home[record.first : record.first + len(placement)] = placement
    state.clock.resized = 1


def slot_arrays(
    state: State, decision: Decision, indices: dict[int, int]
) -> tuple[NDArray[np.int8], Integers]:
    """The table of ``decision`` as ``State.slots`` and ``State.slot_ns``.

    ``indices`` gives the index of each job's record by the job's number.
    """
    slots = np.zeros((len(decision.slots), len(state.processes)), dtype=np.int8)
    begins = state.jobs.first.tolist()
    counts = state.jobs.processes.tolist()
    firsts = {number: begins[indices[number]] for number in decision.placements}
    places: dict[tuple[int, int], list[int]] = {}  # the processes of a job on a processor
    for number, placement in decision.placements.items():
        for process, p in enumerate(placement, firsts[number]):
            places.setdefault((number, p), []).append(process)
        if (count := counts[indices[number]]) > len(placement):
            # The others are not stopped: they suspend themselves.
            slots[:, firsts[number] + len(placement) : firsts[number] + count] = 1
    for row, slot in zip(slots, decision.slots, strict=True):
        restricted = {number for number, _ in slot.allowed_ranks}
        named = {firsts[number] + rank for number, rank in slot.allowed_ranks}
        runs = ((number, p) for p, numbers in enumerate(slot.runs) for number in numbers)
        row[
            [
                process
                for number, p in runs
                for process in places.get((number, p), ())
                if number not in restricted or process in named
            ]
        ] = 1
    never_ns = int(state.clock.never_ns)
    lengths = [never_ns if slot.length_ns is None else slot.length_ns for slot in decision.slots]
    return slots, np.array(lengths, dtype=np.int64)


def _records(count: int, dtype: np.dtype[np.void]) -> Records:
    """Zeros that begin at a cache line."""
    size = count * dtype.itemsize
    memory = np.zeros(size + m.CACHE_LINE_BYTES, dtype=np.uint8)
    begin = -memory.ctypes.data % m.CACHE_LINE_BYTES
    return memory[begin : begin + size].view(dtype).view(np.recarray)


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()

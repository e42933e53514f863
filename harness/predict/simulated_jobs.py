"""The jobs of an experiment, translated for the simulator."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.workload import ParallelJob
from harness.predict.recorded_programs import NONE, RecordedPrograms
from harness.simulator.processes.machine import SimulatedJob, replaying
from harness.simulator.processes.replayed_program import ReplayedProgram
from harness.spec.jobs import described
from workloads.other import Command, InteractiveWork, SequentialWork
from workloads.patterns import LOCK
from workloads.program import Program
from workloads.validation import InputError

BEGIN_S, EVENT_S = 3e-3, 1e-7
"""About how long it takes to begin a simulation, and to simulate an event."""


def guess_s(programs: Iterable[Program | ReplayedProgram]) -> float:
    """About how long it takes to simulate programs at once.

    In a phase each process computes once, has a message to and from each barrier, and a read or a critical
    section at a time. A step of a recorded program has about two events.
    """
    return BEGIN_S + EVENT_S * sum(map(_events, programs))


def _events(program: Program | ReplayedProgram) -> int:
    if isinstance(program, ReplayedProgram):
        return 2 * sum(map(program.count, range(program.processes)))
    each = 1 + 2 * program.barriers_per_phase + program.reads_per_phase + (program.pattern == LOCK)
    return program.processes * program.phase_count() * each


def simulated_job(
    job: ParallelJob, recorded: RecordedPrograms = NONE, *, blocking_calls: bool = True
) -> SimulatedJob:
    """The job on a simulated machine: a policy may mould a synthetic program, but nothing else.

    ``blocking_calls``: see :meth:`RecordedPrograms.replayed`.
    """
    match job.program:
        case Command() as command if recorded.known(command):
            return replaying(
                job.number,
                recorded.replayed(command, blocking_calls=blocking_calls),
                job.arrival_s,
                job.estimate,
            )
        case SequentialWork(work_s):
            alone = Program(processes=1, granularity_us=work_s * 1e6, phases=1)
            return SimulatedJob(job.number, alone, job.arrival_s, think_us=0.0, estimate=job.estimate)
        case InteractiveWork(burst_ms, think_ms, bursts):
            alone = Program(processes=1, granularity_us=burst_ms * 1e3, phases=bursts)
            think_us = think_ms * 1e3
            return SimulatedJob(job.number, alone, job.arrival_s, think_us=think_us, estimate=job.estimate)
        case Program(malleable=False) as program:
            return SimulatedJob(job.number, program, job.arrival_s, moldable=True, estimate=job.estimate)
    if isinstance(job.program, Command):
        rule = "a command is simulated by a recording, and it has none"
        remedy = 'write recording = "FILE" (lockstep observe makes one), or record = true for lockstep run'
        raise InputError(f"job {job.number}", described(job.program), rule, remedy)
    rule = "cannot be simulated: it changes its number of processes"
    raise InputError(f"job {job.number}", described(job.program), rule, "measure it: lockstep run")

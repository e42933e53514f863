"""The jobs of an experiment, translated for the simulator."""

from __future__ import annotations

from coordinator.workload import ParallelJob
from harness.simulator.processes.machine import SimulatedJob
from harness.spec.jobs import described
from workloads.other import InteractiveWork, SequentialWork
from workloads.program import Program
from workloads.validation import InputError


def simulated_job(job: ParallelJob) -> SimulatedJob:
    """The job on a simulated machine: a policy may mould a synthetic program, but nothing else.

    Raises:
        InputError: for a job that is not :func:`harness.spec.jobs.simulable`.
    """
    match job.program:
        case SequentialWork(work_s):
            alone = Program(processes=1, granularity_us=work_s * 1e6, phases=1)
            return SimulatedJob(job.number, alone, job.arrival_s, think_us=0.0, estimate=job.estimate)
        case InteractiveWork(burst_ms, think_ms, bursts):
            alone = Program(processes=1, granularity_us=burst_ms * 1e3, phases=bursts)
            think_us = think_ms * 1e3
            return SimulatedJob(job.number, alone, job.arrival_s, think_us=think_us, estimate=job.estimate)
        case Program(malleable=False) as program:
            return SimulatedJob(job.number, program, job.arrival_s, moldable=True, estimate=job.estimate)
    rule = "cannot be simulated: it is a command, or changes its number of processes"
    raise InputError(f"job {job.number}", described(job.program), rule, "measure it: lockstep run")

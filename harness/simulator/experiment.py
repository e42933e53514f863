"""An experiment file on a simulated machine: every scheduler against dedicated runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from coordinator.policies import Policy, create
from coordinator.workload import ParallelJob
from harness.experiment import Cell, Experiment, Scheduler
from harness.papers import Progress, parallel
from harness.simulator.machine import SimulatedMachine
from harness.simulator.outcome import Outcome
from harness.simulator.simulate import simulate
from harness.simulator.work import simulated_job
from harness.statistics import bounded_slowdown, estimate, response_times

Compute = Callable[[Sequence[Any], Callable[[Any], Any], Progress], dict[Any, Any]]
"""Does independent parts of a piece of work (``harness.papers.parallel.compute``)."""


@dataclass(frozen=True)
class _Task:
    """One run: ``scheduler`` is an index, or None for the program of job ``alone`` by itself."""

    cell: int
    repeat: int
    scheduler: int | None
    alone: int = 0


def simulate_experiment(
    experiment: Experiment,
    machines: Sequence[SimulatedMachine],
    tau_s: float,
    progress: Progress,
    compute: Compute = parallel.compute,
) -> list[dict[str, Any]]:
    """One row per cell and scheduler, as ``lockstep run`` makes them, with ``measured`` None.

    ``machines`` has one for each cell; ``compute`` has the parts of the work done, wherever that
    is. The same experiment gives the same rows.
    """
    tasks = [task for cell in experiment.cells for task in _tasks(experiment, cell)]
    outcomes = compute(tasks, partial(_run, experiment, machines), progress)
    return [
        _row(experiment, cell, index, outcomes, tau_s)
        for cell in experiment.cells
        for index in range(len(experiment.schedulers))
    ]


def _tasks(experiment: Experiment, cell: Cell) -> list[_Task]:
    jobs = cell.jobs()
    firsts = {job.program: job.number for job in reversed(jobs)}
    return [
        task
        for repeat in range(experiment.repeats)
        for task in (
            *(_Task(cell.index, repeat, None, number) for number in sorted(firsts.values())),
            *(_Task(cell.index, repeat, index) for index in range(len(experiment.schedulers))),
        )
    ]


def _run(experiment: Experiment, machines: Sequence[SimulatedMachine], task: _Task) -> Outcome:
    jobs: Sequence[ParallelJob] = experiment.cells[task.cell].jobs()
    policy: Policy = create("batch", {})
    waiting: dict[str, Any] = {"blocking": "spin"}
    if task.scheduler is None:
        jobs = [ParallelJob(task.alone, jobs[task.alone].program)]
    else:
        scheduler: Scheduler = experiment.schedulers[task.scheduler]
        policy = scheduler.policy
        waiting = {"blocking": scheduler.blocking, "spin_switches": scheduler.spin_switches}
    return simulate(
        [simulated_job(job) for job in jobs],
        machines[task.cell],
        policy,
        seed=experiment.seed,
        repeat=task.repeat,
        **waiting,
    )


def _row(
    experiment: Experiment, cell: Cell, index: int, outcomes: Mapping[_Task, Outcome], tau_s: float
) -> dict[str, Any]:
    jobs = cell.jobs()
    programs = [asdict(job.program) for job in jobs]
    row: dict[str, Any] = {"program": programs[0], "settings": dict(cell.settings)}
    row |= {"scheduler": experiment.schedulers[index].table, "count": len(jobs)}
    if any(program != programs[0] for program in programs):
        pairs = zip(jobs, programs, strict=True)
        row["jobs"] = [{"arrival_s": job.arrival_s, "program": program} for job, program in pairs]
    firsts = {job.program: job.number for job in reversed(jobs)}
    repeats, failures = [], []
    for repeat in range(experiment.repeats):
        ours = outcomes[_Task(cell.index, repeat, index)]
        alone = [outcomes[_Task(cell.index, repeat, None, firsts[job.program])] for job in jobs]
        if ours.failure:
            failures.append(ours.failure)
        else:
            repeats.append((ours, [(one.makespan_ns or 0) / 1e9 for one in alone]))
    simulated = _summary(repeats, tau_s) | {"failures": len(failures)}
    return row | {"measured": None, "simulated": simulated, "error": None, "failures": failures}


def _summary(repeats: Sequence[tuple[Outcome, list[float]]], tau_s: float) -> dict[str, Any]:
    if not repeats:
        unknown = ("slowdown", "breakdown", "makespan_s", "dedicated_s", "switches", "waits", "responses")
        nothing = dict.fromkeys(unknown)
        return {"workload_slowdown": {"median": None, "ci95": None, "n": 0}} | nothing
    outcomes = [outcome for outcome, _ in repeats]
    slowdowns = [_slowdowns(outcome, alone_s, 0.0) for outcome, alone_s in repeats]
    bounded = [_slowdowns(outcome, alone_s, tau_s) for outcome, alone_s in repeats]
    ratios = [(outcome.makespan_ns or 0) / 1e9 / sum(alone_s) for outcome, alone_s in repeats]
    return {
        "workload_slowdown": asdict(estimate(ratios)),
        "slowdown": {
            "mean": statistics.median(map(statistics.fmean, slowdowns)),
            "max": statistics.median(map(max, slowdowns)),
            "bounded_mean": statistics.median(map(statistics.fmean, bounded)),
            "bounded_max": statistics.median(map(max, bounded)),
            "tau_s": tau_s,
        },
        "breakdown": {
            part: statistics.fmean(outcome.breakdown[part] for outcome in outcomes)
            for part in outcomes[0].breakdown
        },
        "makespan_s": statistics.median((outcome.makespan_ns or 0) / 1e9 for outcome in outcomes),
        "dedicated_s": statistics.median(sum(alone_s) for _, alone_s in repeats),
        "switches": None,
        "waits": {"barrier": _waits(outcomes, "barriers"), "read": _waits(outcomes, "reads")},
        "responses": response_times([time for one in outcomes for job in one.jobs for time in job.bursts_ns]),
    }


def _slowdowns(outcome: Outcome, alone_s: Sequence[float], tau_s: float) -> list[float]:
    pairs = zip(outcome.jobs, alone_s, strict=True)
    if tau_s:
        return [bounded_slowdown((job.response_ns or 0) / 1e9, alone, tau_s) for job, alone in pairs]
    return [(job.response_ns or 0) / 1e9 / alone for job, alone in pairs]


def _waits(outcomes: Sequence[Outcome], kind: str) -> dict[str, Any]:
    """As ``harness.summary`` has them."""
    waits = [getattr(job, kind) for outcome in outcomes for job in outcome.jobs]
    spun, blocked = sum(wait.spun for wait in waits), sum(wait.blocked for wait in waits)
    spun_us, blocked_us = (sum(getattr(w, key) for w in waits) / 1e3 for key in ("spun_ns", "blocked_ns"))
    return {
        "spun": spun,
        "blocked": blocked,
        "spun_mean_us": spun_us / spun if spun else None,
        "blocked_mean_us": blocked_us / blocked if blocked else None,
    }

"""The back end that simulates job by job: what each scheduler makes of a trace or of random jobs.

Why it makes no run records: docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from coordinator.policies import Policy
from coordinator.policies.queueing import ModifiedTwoQueue, MultilevelTwoQueue, TwoQueue
from coordinator.policies.space import Batch
from harness.predict.job_experiment import JobExperiment
from harness.predict.pool import Compute, Progress, compute
from harness.predict.replicate import Plan, replicate
from harness.simulator.jobs.metrics import Metrics, measure
from harness.simulator.jobs.model import Jobs, Outcome
from harness.simulator.jobs.simulate import Watched, simulate

ONE_AT_A_TIME = (Batch, TwoQueue, ModifiedTwoQueue, MultilevelTwoQueue)
"""Policies that give one job the whole machine: their load is that of a single server."""

WATCHED_SHARE = 2 / 3
"""Of the jobs of a replication those that must end before the last one arrives."""


@dataclass(frozen=True)
class Schedule:
    """What one scheduler gave.

    Attributes:
        label: the scheduler in words.
        scheduler: its table.
        metrics: means by name; None where there are none.
        half: half-widths of their 95 % intervals over replications.
        replications: how many.
        saturated: whether the policy cannot keep up with the jobs; why, in words, else empty.
        outcome: of the trace, or None.
    """

    label: str
    scheduler: Mapping[str, Any]
    metrics: Mapping[str, float | None]
    half: Mapping[str, float | None]
    replications: int
    saturated: str = ""
    outcome: Outcome | None = field(default=None, repr=False)

    def document(self) -> dict[str, Any]:
        """The row as plain values."""
        return {
            "scheduler": dict(self.scheduler),
            "metrics": dict(self.metrics),
            "half_width": dict(self.half),
            "replications": self.replications,
            "saturated": self.saturated,
        }


def run(experiment: JobExperiment, progress: Progress, compute: Compute = compute) -> list[Schedule]:
    """Simulate the jobs under every scheduler; ``compute`` has that done, wherever it is."""
    return compute(experiment.schedulers, partial(_under, experiment), progress)


def _under(experiment: JobExperiment, scheduler: tuple[Mapping[str, Any], Policy]) -> Schedule:
    table, policy = scheduler
    if experiment.trace is not None:
        return _on_trace(experiment, experiment.trace.jobs, describe(table), table, policy)
    return _on_model(experiment, describe(table), table, policy)


def describe(table: Mapping[str, Any]) -> str:
    """A scheduler in words: its policy and the parameters that are given."""
    options = ", ".join(f"{key} {value}" for key, value in table.items() if key != "policy")
    return f"{table['policy']} ({options})" if options else str(table["policy"])


def _on_trace(
    experiment: JobExperiment, jobs: Jobs, label: str, table: Mapping[str, Any], policy: Any
) -> Schedule:
    if isinstance(policy, ONE_AT_A_TIME):
        span_s = (jobs.submit_ns[-1] - jobs.submit_ns[0]) / 1e9
        load = float(jobs.times_s(jobs.most).sum()) / max(span_s, 1e-9)
        if load > 1:
            why = f"one job at a time is a load of {load:.2f}"
            return Schedule(label, table, {}, {}, 0, why)
    outcome = simulate(jobs, experiment.processors, policy)
    metrics = measure(outcome, warm_up=experiment.warm_up, tau_s=experiment.tau_s)
    return Schedule(label, table, _plain(metrics), {}, 1, outcome=outcome)


def _on_model(experiment: JobExperiment, label: str, table: Mapping[str, Any], policy: Any) -> Schedule:
    model = experiment.model
    assert model is not None
    watched = int(model.count * WATCHED_SHARE)

    def one(random: np.random.Generator) -> Metrics | None:
        outcome = simulate(
            model.draw(experiment.processors, random), experiment.processors, policy, Watched(watched)
        )
        late = outcome.finish_ns[:watched].max() > outcome.jobs.submit_ns[-1]
        if outcome.saturated or late:
            return None
        return measure(outcome, warm_up=experiment.warm_up, last=watched, tau_s=experiment.tau_s)

    plan = Plan(experiment.half_width, min(3, experiment.replications), experiment.replications)
    found = replicate(one, experiment.seed, plan)
    if found.saturated:
        tried = found.stuck + len(found.metrics)
        return Schedule(label, table, {}, {}, tried, f"in {found.stuck} of {tried} replications")
    names = list(_plain(found.metrics[0]))
    means = {name: found.mean(name) for name in names}
    finite = {name: mean.mean if np.isfinite(mean.mean) else None for name, mean in means.items()}
    halves = {name: mean.half for name, mean in means.items()}
    return Schedule(label, table, finite, halves, len(found.metrics))


def _plain(metrics: Metrics) -> dict[str, float | None]:
    return {name: value for name, value in metrics.row().items() if name != "jobs"}

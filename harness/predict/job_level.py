"""The back end that simulates job by job: a trace or random jobs under each scheduler.

docs/decisions.md says why it makes no run records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from coordinator.owners import Owner, changes
from coordinator.policies import Policy
from coordinator.policies.queueing import ModifiedTwoQueue, MultilevelTwoQueue, TwoQueue
from coordinator.policies.space import Batch
from coordinator.topology import FLAT, Topology
from harness.predict.pool import Pool, Progress, compute, forget
from harness.predict.replicate import Precision, replicate
from harness.predict.trace import Trace, read
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, in_ns, moldable
from harness.simulator.jobs.metrics import Metrics, measure
from harness.simulator.jobs.model import JobLevelOutcome, Jobs
from harness.simulator.jobs.simulate import Watched, simulate
from harness.spec import owners
from harness.spec.job_level import JobExperiment, Model, no_processors
from harness.spec.machine import lost_of, topology_of
from harness.spec.naming import policy_name
from workloads.bounds import TRACE_S, fits
from workloads.validation import InputError

ONE_AT_A_TIME = (Batch, TwoQueue, ModifiedTwoQueue, MultilevelTwoQueue)
"""Policies that give one job the whole machine, which is a single server then."""

WATCHED_SHARE = 2 / 3
"""The share of a replication's jobs that must end before the last one arrives."""


@dataclass(frozen=True)
class Study:
    """An experiment with its trace, if it has one, and the processors of its machine."""

    experiment: JobExperiment
    processors: int
    trace: Trace | None = field(default=None, repr=False)
    topology: Topology = FLAT
    owners: tuple[Owner, ...] = ()
    lost: frozenset[int] = frozenset()

    @classmethod
    def of(cls, experiment: JobExperiment) -> Study:
        """The study of ``experiment``; reads its trace.

        Raises:
            InputError: for a trace that cannot be read, or jobs, a topology or lost processors that do not
                fit the machine.
        """
        trace, processors = None, experiment.processors
        if experiment.trace is not None:
            trace = read(experiment.trace)
            processors = processors or trace.processors or 0
            if not processors:
                raise no_processors("trace", f"--set processors={trace.jobs.most.max()} for its largest job")
            trace = trace.stretched(experiment.load, processors)
        connected = topology_of(experiment.machine, processors)
        lost = lost_of(experiment.machine, processors)
        if trace is not None:
            trace.check(processors, len(lost))
        elif experiment.model is not None and experiment.model.rigid:
            _check_rigid(experiment.model, processors, len(lost))
        present = owners.on(experiment.owners, processors)
        return cls(experiment, processors, trace, connected, present, lost)

    @property
    def count(self) -> int:
        """The number of jobs, in each replication of a model."""
        if self.trace:
            return len(self.trace.jobs)
        return self.experiment.model.count if self.experiment.model else 0


def _check_rigid(model: Model, processors: int, lost: int) -> None:
    """Raises InputError for rigid jobs that do not fit on what is left of the machine."""
    for index, most in enumerate(model.maxima):
        fits(f"model.maxima[{index}]", min(most, processors), processors, lost=lost)


def draw(model: Model, processors: int, random: np.random.Generator, lost: int = 0) -> Jobs:
    """The jobs of one replication, none larger than what is left; the load refers to all processors."""
    most = np.minimum(random.choice(np.asarray(model.maxima), model.count), processors - lost)
    mu = random.choice(np.asarray(model.mu, dtype=float), model.count)
    work_s = hyperexponential(model.count, model.shares, model.means_s, random)
    base = moldable(np.zeros(model.count), most, work_s, mu)
    if model.rigid:
        base = replace(base, least=most)
    demand_s = base.times_s(most) * most if model.rigid else base.demand_s
    gap_s = float(demand_s.mean()) / (processors * model.load)
    between = gaps_s(model.arrivals, model.count, gap_s, random, cv=model.cv, unit_s=gap_s / 1000)
    return replace(base, submit_ns=in_ns(np.cumsum(between)))


@dataclass(frozen=True)
class Schedule:
    """The results of one scheduler.

    Attributes:
        scheduler: its table.
        metrics: means by name; None where there are none.
        half_width: half-widths of their 95 % intervals over replications.
        replications: how many.
        saturated: why the policy cannot keep up with the jobs; empty if it can.
        label: the scheduler in words.
        outcome: of the trace, or None.
    """

    scheduler: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    half_width: Mapping[str, float | None] = field(default_factory=dict)
    replications: int = 0
    saturated: str = ""
    label: str = ""
    outcome: JobLevelOutcome | None = field(default=None, repr=False)

    def document(self) -> dict[str, Any]:
        """The row as plain values."""
        return {name: value for name, value in vars(self).items() if name not in ("label", "outcome")}


def run(
    study: Study,
    progress: Progress,
    compute: Pool = compute,
    keep: Callable[[Schedule], None] = forget,
) -> list[Schedule]:
    """Simulate the jobs under every scheduler; ``compute`` runs the parts of the work.

    ``keep`` receives the results of each scheduler as soon as they are known.

    Raises:
        InputError: for a policy whose decisions only processes can follow.
    """
    return compute(study.experiment.schedulers, partial(_under, study), progress, keep)


def _under(study: Study, scheduler: tuple[Mapping[str, Any], Policy]) -> Schedule:
    table, policy = scheduler
    try:
        made = _on_trace(study, policy) if study.trace else _on_model(study, policy)
    except InputError as error:
        if error.key != "policy":
            raise
        place = [one for one, _ in study.experiment.schedulers].index(table)
        key = f"schedulers[{place}].policy"
        raise InputError(key, table["policy"], error.rule, error.remedy) from None
    return replace(made, label=policy_name(table), scheduler=table)


def _on_trace(study: Study, policy: Policy) -> Schedule:
    assert study.trace is not None
    jobs, experiment = study.trace.jobs, study.experiment
    if isinstance(policy, ONE_AT_A_TIME):
        # Jobs that all arrive at once are no load: only so many that no clock holds them are too many.
        load = float(jobs.times_s(jobs.most).sum()) / (study.trace.span_s or TRACE_S)
        if load > 1:
            return Schedule(saturated=f"one job at a time is a load of {load:.2f}")
    outcome = simulate(
        jobs,
        study.processors,
        policy,
        topology=study.topology,
        owners=changes(study.owners, experiment.seed, 0),
        migration=experiment.migration,
        lost=study.lost,
    )
    metrics = measure(outcome, warm_up=experiment.warm_up, tau_s=experiment.tau_s)
    return Schedule(metrics=_plain(metrics), replications=1, outcome=outcome)


def _on_model(study: Study, policy: Policy) -> Schedule:
    experiment, model = study.experiment, study.experiment.model
    assert model is not None
    watched = int(model.count * WATCHED_SHARE)

    def one(random: np.random.Generator) -> Metrics | None:
        jobs = draw(model, study.processors, random, len(study.lost))
        come_and_go = changes(study.owners, int(random.integers(2**31)), 0) if study.owners else ()
        outcome = simulate(
            jobs,
            study.processors,
            policy,
            Watched(watched),
            study.topology,
            come_and_go,
            experiment.migration,
            study.lost,
        )
        late = outcome.finish_ns[:watched].max() > outcome.jobs.submit_ns[-1]
        if outcome.saturated or late:
            return None
        return measure(outcome, warm_up=experiment.warm_up, last=watched, tau_s=experiment.tau_s)

    plan = Precision(experiment.half_width, min(3, experiment.replications), experiment.replications)
    found = replicate(one, experiment.seed, plan)
    if found.saturated:
        tried = found.stuck + len(found.metrics)
        return Schedule(replications=tried, saturated=f"in {found.stuck} of {tried} replications")
    means = {name: found.mean(name) for name in _plain(found.metrics[0])}
    return Schedule(
        metrics={name: mean.mean if np.isfinite(mean.mean) else None for name, mean in means.items()},
        half_width={name: mean.shown_half for name, mean in means.items()},
        replications=len(found.metrics),
    )


def _plain(metrics: Metrics) -> dict[str, float | None]:
    return {name: value for name, value in metrics.row().items() if name != "jobs"}

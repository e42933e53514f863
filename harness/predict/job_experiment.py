"""Experiment files of the job level: ``level = "jobs"``, a trace or a model of jobs, schedulers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from coordinator import policies
from coordinator.policies import Policy
from harness.simulator.jobs import swf
from harness.simulator.jobs.arrivals import PROCESSES, gaps_s, hyperexponential, moldable
from harness.simulator.jobs.metrics import TAU_S
from harness.simulator.jobs.model import Jobs
from harness.spec.experiment_source import Document
from workloads.bounds import within
from workloads.validation import LONGEST, InputError, flag, one_of

LEVEL = "jobs"


@dataclass(frozen=True)
class Model:
    """Random jobs with Sevcik's execution time function.

    Attributes:
        count: jobs of a replication.
        arrivals: "exponential", "hyperexponential" or "geometric" times between arrivals.
        load: mean demand E(T(1)) over what the processors can do between two arrivals.
        cv: coefficient of variation of hyperexponential times.
        shares: of the exponential stages that the work is drawn from.
        means_s: mean work of each stage.
        maxima: maximum parallelism, each value as frequent.
        mu: alpha = W most^(-2 mu), each value as frequent; inf for none.
        rigid: whether jobs need exactly their maximum.
    """

    count: int = 20_000
    arrivals: str = "exponential"
    load: float = 0.7
    cv: float = 2.0
    shares: Sequence[float] = (0.125, 0.875)
    means_s: Sequence[float] = (101.0, 1.3)
    maxima: Sequence[int] = (4, 16, 64)
    mu: Sequence[float] = (float("inf"),)
    rigid: bool = False

    def __post_init__(self) -> None:
        within("model.count", self.count)
        one_of("arrivals", self.arrivals, PROCESSES)
        within("model.load", self.load)
        within("model.cv", self.cv)
        flag("rigid", self.rigid)
        for key in ("shares", "means_s", "maxima", "mu"):
            values = getattr(self, key)
            if not isinstance(values, list | tuple) or not values:
                raise InputError(key, values, "must be a list of at least one number", "write [1, 2]")
        for value in (*self.shares, *self.means_s):
            within("model.shares" if value in self.shares else "model.means_s", value)
        for size in self.maxima:
            within("model.maxima", size)
        for value in self.mu:
            if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
                raise InputError("mu", value, "must be a number of at least 0, or inf", "write [0.4, inf]")
        if len(self.shares) != len(self.means_s) or abs(sum(self.shares) - 1) > 1e-6:
            rule = "must have an entry for each of means_s and add up to 1"
            raise InputError("shares", list(self.shares), rule, "write [0.125, 0.875]")

    def draw(self, processors: int, random: np.random.Generator) -> Jobs:
        """The jobs of one replication."""
        most = np.minimum(random.choice(np.asarray(self.maxima), self.count), processors)
        mu = random.choice(np.asarray(self.mu, dtype=float), self.count)
        work_s = hyperexponential(self.count, self.shares, self.means_s, random)
        base = moldable(np.zeros(self.count), most, work_s, mu)
        if self.rigid:
            base = replace(base, least=most)
        demand_s = base.times_s(most) * most if self.rigid else base.demand_s
        gap_s = float(demand_s.mean()) / (processors * self.load)
        unit_s = gap_s / 1000
        between = gaps_s(self.arrivals, self.count, gap_s, random, cv=self.cv, unit_s=unit_s)
        return replace(base, submit_ns=np.rint(np.cumsum(between) * 1e9).astype(np.int64))


@dataclass(frozen=True)
class JobExperiment:
    """A validated experiment of the job level; either ``trace`` or ``model`` is there."""

    name: str
    processors: int
    seed: int
    schedulers: tuple[tuple[Mapping[str, Any], Policy], ...]
    trace: swf.Trace | None = field(repr=False)
    model: Model | None
    warm_up: int = 0
    tau_s: float = TAU_S
    half_width: float = 0.05
    replications: int = 30


_NUMBERS = ("warm_up", "tau_s", "half_width", "replications")
_KEYS = ("level", "name", "processors", "seed", "trace", "load", "model", "schedulers", *_NUMBERS)


def load(document: Document, *, trace: str | None = None) -> JobExperiment:
    """The experiment in ``document``; ``trace`` takes the place of the file's.

    Raises:
        InputError: for whatever is wrong with it.
    """
    try:
        return _load(document.data, Path(document.file).stem, trace)
    except InputError as error:
        raise document.located(error) from None


def _load(data: Mapping[str, Any], file_name: str, trace: str | None) -> JobExperiment:
    _known(data, _KEYS, "")
    one_of("level", data.get("level"), (LEVEL,))
    source = trace or data.get("trace")
    if (source is None) == ("model" not in data):
        rule = "either a trace or a [model] of jobs must be given"
        raise InputError("trace", source, rule, 'write trace = "log.swf.gz", or a [model] table')
    read = None if source is None else _scaled(swf.read(Path(str(source))), data.get("load"))
    model = None
    if source is None:
        table = data["model"]
        _known(table, [item.name for item in fields(Model)], "model")
        try:
            model = Model(**table)
        except InputError as error:
            raise error.under("model") from None
    processors = data.get("processors", 0)
    within("processors", processors)
    processors = processors or (read.processors if read else 0) or 0
    if not processors:
        rule = "the trace does not say how many the machine has"
        raise InputError("processors", 0, rule, "write processors = 128")
    if read is not None:
        read.jobs.check(processors)
    values = {key: data[key] for key in _NUMBERS if key in data}
    for key, value in values.items():
        within(key, value)
    within("seed", data.get("seed", 1))
    return JobExperiment(
        name=str(data.get("name", file_name)),
        processors=processors,
        seed=data.get("seed", 1),
        schedulers=_schedulers(data.get("schedulers")),
        trace=read,
        model=model,
        **values,
    )


def _scaled(trace: swf.Trace, load: Any) -> swf.Trace:
    """The trace with its times between arrivals stretched to an offered load, if one is given."""
    if load is None:
        return trace
    within("load", load)
    if not trace.processors:
        raise InputError("load", load, "the trace does not say how many processors it had", "leave load out")
    jobs = trace.jobs
    span_s = (jobs.submit_ns[-1] - jobs.submit_ns[0]) / 1e9
    factor = float(jobs.work_s.sum()) / (trace.processors * span_s) / load
    return replace(trace, jobs=replace(jobs, submit_ns=np.rint(jobs.submit_ns * factor).astype(np.int64)))


def _schedulers(tables: Any) -> tuple[tuple[Mapping[str, Any], Policy], ...]:
    if not isinstance(tables, list) or not tables:
        rule = "an experiment needs at least one [[schedulers]] table"
        raise InputError("schedulers", tables, rule, 'write [[schedulers]] and below it policy = "easy"')
    made = []
    for index, table in enumerate(tables):
        key = f"schedulers[{index}]"
        if not isinstance(table, dict) or "policy" not in table:
            raise InputError(key, table, "every [[schedulers]] table needs a policy", 'write policy = "easy"')
        try:
            options = {name: value for name, value in table.items() if name != "policy"}
            made.append((table, policies.create(table["policy"], options)))
        except InputError as error:
            raise error.under(key) from None
    return tuple(made)


def _known(table: Any, known: Sequence[str], prefix: str) -> None:
    if not isinstance(table, dict):
        raise InputError(prefix, table, "must be a table", f"write [{prefix}] above its keys")
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key[:LONGEST], known, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else "known are " + ", ".join(known)
            where = f"{prefix}.{key}" if prefix else key
            raise InputError(where, value, "is not a key that is known here", remedy)

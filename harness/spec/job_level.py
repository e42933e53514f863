"""Experiments of the job level: ``level = "jobs"``, a trace or a model of jobs, schedulers."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

from coordinator.migration import Migration
from harness.spec import owners
from harness.spec.experiment import Cell, Experiment, experiment_name
from harness.spec.experiment_source import Document
from harness.spec.scheduler import Scheduler, policy_of
from harness.spec.table_checks import Table, as_table, each
from workloads.bounds import SIMULATED_PROCESSORS, within
from workloads.machine import ARRIVALS, TAU_S, TOPOLOGY_KEYS
from workloads.parameters import Bounds, Checked, OneOf, OrInfinite, build
from workloads.validation import InputError, known_keys, one_of

LEVEL = "jobs"


@dataclass(frozen=True)
class Model(Checked):
    """Random jobs with Sevcik's execution time function."""

    count: Annotated[int, Bounds(2, 10_000_000)] = 20_000  # jobs of a replication
    # "exponential", "hyperexponential" or "geometric" times between arrivals.
    arrivals: Annotated[str, OneOf(ARRIVALS)] = "exponential"
    # Mean demand over the processor time between two arrivals.
    load: Annotated[float, Bounds(1e-6, 1000)] = 0.7
    cv: Annotated[float, Bounds(1.000001, 1000)] = 2.0  # coefficient of variation of hyperexponential times
    # Probability of each exponential stage of the work.
    shares: tuple[Annotated[float, Bounds(1e-9, 1)], ...] = (0.125, 0.875)
    means_s: tuple[Annotated[float, Bounds(1e-9, 1e9)], ...] = (101.0, 1.3)  # mean work of each stage
    # Values of the maximum parallelism, equally likely.
    maxima: tuple[Annotated[int, Bounds(1, SIMULATED_PROCESSORS)], ...] = (4, 16, 64)
    # Values of mu in alpha = W most^(-2 mu), equally likely; inf for alpha = 0.
    mu: tuple[Annotated[float, OrInfinite()], ...] = (float("inf"),)
    rigid: bool = False  # whether jobs need exactly their maximum

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shares) != len(self.means_s) or abs(sum(self.shares) - 1) > 1e-6:
            rule = "must have an entry for each of means_s and add up to 1"
            raise InputError("shares", list(self.shares), rule, "write [0.125, 0.875]")


@dataclass(frozen=True, eq=False)
class JobScheduler(Scheduler):
    """A policy for jobs without processes: its table stays as ``written``. A file may have two alike."""

    written: Table = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check nothing: the options of processes mean nothing here."""

    @property
    def table(self) -> dict[str, Any]:
        return dict(self.written)


@dataclass(frozen=True)
class JobExperiment(Experiment):
    """A validated experiment of the job level; it has either ``trace`` or ``model``.

    It has one cell, with the machine. ``repeats`` is the largest number of replications of a model, and
    0 ``processors`` are as many as the trace says.
    """

    trace: Path | None = None  # file of the jobs
    # Offered load to which the trace is stretched; None leaves its times as they are.
    load: float | None = None
    model: Model | None = None  # of random jobs
    warm_up: int = 0  # jobs at the beginning that do not count
    tau_s: float = TAU_S  # bound of the bounded slowdown
    half_width: float = 0.05  # relative half-width of the intervals to reach by replications of the model
    # What jobs pay that move, or vacate their processors.
    migration: Migration = field(default_factory=Migration)

    @property
    def cell(self) -> Cell:
        return self.cells[0]

    def on(self, processors: int) -> Self:
        return replace(self, processors=processors, cells=(replace(self.cell, processors=processors),))


_NUMBERS = ("load", "warm_up", "tau_s", "half_width", "replications")
_TABLES = ("model", "machine", "owners", "migration", "schedulers")
_KEYS = ("level", "name", "processors", "seed", "trace", *_TABLES, *_NUMBERS)


def load(document: Document, *, trace: str | None = None, quick: bool = False) -> JobExperiment:
    """The experiment in ``document``; ``trace`` replaces the file's.

    With ``quick``, intervals of random jobs may be twice as wide, and there are at most 5 replications.
    """
    try:
        made = _experiment(document.data, Path(document.file), trace)
    except InputError as error:
        raise document.located(error) from None
    return replace(made, half_width=2 * made.half_width, repeats=5) if quick and made.model else made


def _experiment(data: Table, file: Path, trace: str | None) -> JobExperiment:
    known_keys(data, _KEYS, "")
    one_of("level", data.get("level"), (LEVEL,))
    source = trace or data.get("trace")
    if (source is None) == ("model" not in data):
        rule = "either a trace or a [model] of jobs must be given"
        raise InputError("trace", source, rule, 'write trace = "log.swf.gz", or a [model] table')
    numbers = {key: data[key] for key in ("processors", "seed", *_NUMBERS) if key in data}
    for key, value in numbers.items():
        within("simulated.processors" if key == "processors" else key, value, key)
    machine = as_table(data.get("machine", {}), "machine")
    known_keys(machine, (*TOPOLOGY_KEYS, "lost"), "machine")
    model = None if source else build(Model, as_table(data["model"], "model"), "model")
    processors = numbers.pop("processors", 0)
    if model and not processors:
        raise no_processors("[model]", "write processors = 128")
    schedulers = each(
        data.get("schedulers"),
        "schedulers",
        'policy = "easy"',
        lambda table: JobScheduler(policy=policy_of(table), name=table["policy"], written=table),
    )
    present = owners.parse(data.get("owners", []), file.parent, schedulers)
    migration = build(Migration, as_table(data.get("migration", {}), "migration"), "migration")
    return JobExperiment(
        name=experiment_name(data, file.stem),
        processors=processors,
        repeats=numbers.pop("replications", 30),
        seed=numbers.pop("seed", 1),
        schedulers=schedulers,
        cells=(Cell(0, {}, (), machine, processors),),
        owners=present,
        migration=migration,
        trace=Path(str(source)) if source else None,
        model=model,
        **numbers,
    )


def no_processors(source: str, remedy: str) -> InputError:
    rule = f"the {source} does not give the number of processors of the machine"
    return InputError("processors", 0, rule, remedy)

"""Jobs without processes (``level = "jobs"``): those of a log or random ones, and which of them count."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from coordinator.migration import Migration
from harness.spec.table_checks import Table, as_table, field_names
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


@dataclass(frozen=True)
class Log:
    """A job log."""

    file: Path
    load: float | None = None  # offered load to which arrivals are stretched; None leaves them as they are
    content: str = ""  # SHA-256 over its jobs; empty until it has been read


@dataclass(frozen=True)
class JobSource:
    """Where jobs come from, a log or a model, and how their means are taken."""

    log: Log | None = None
    model: Model | None = None
    warm_up: int = 0  # jobs at the beginning that do not count
    tau_s: float = TAU_S  # bound of the bounded slowdown
    half_width: float = 0.05  # relative half-width of the intervals to reach by replications of the model
    replications: int = 30  # of the model at most
    # What jobs pay that move, or vacate their processors.
    migration: Migration = field(default_factory=Migration)

    @property
    def identity(self) -> dict[str, Any]:
        """What results depend on: of a log, its jobs and not where it lies."""
        found = dataclasses.asdict(self)
        if self.log:
            found["log"] = {"content": self.log.content, "load": self.log.load}
        return found


NUMBERS = ("warm_up", "tau_s", "half_width", "replications")
KEYS = ("log", "model", "migration", *NUMBERS)
MACHINE_KEYS = (*TOPOLOGY_KEYS, "lost")
SWEPT = {
    "log": ("file", "load"),
    "model": field_names(Model),
    "migration": field_names(Migration),
    "machine": MACHINE_KEYS,
}
"""Keys that a sweep of such an experiment may vary, by table."""

FORMER = {
    "trace": "write [log] and below it file = ..., or --log FILE",
    "load": "write it below [log]",
}
"""Keys of the file that have become keys of the table ``log``."""


def parse(data: Table) -> JobSource:
    """The jobs that the tables of an experiment describe."""
    one_of("level", data.get("level"), (LEVEL,))
    for key, remedy in FORMER.items():
        if key in data:
            raise InputError(key, data[key], "belongs to the job log, which has the table [log]", remedy)
    if ("log" in data) == ("model" in data):
        rule = "either a job log or a [model] of jobs must be given"
        raise InputError("log", data.get("log"), rule, "give --log FILE, or a table [log] or [model]")
    numbers = {key: data[key] for key in NUMBERS if key in data}
    for key, value in numbers.items():
        within(key, value)
    return JobSource(
        log=_log(as_table(data["log"], "log")) if "log" in data else None,
        model=build(Model, as_table(data["model"], "model"), "model") if "model" in data else None,
        migration=build(Migration, as_table(data.get("migration", {}), "migration"), "migration"),
        **numbers,
    )


def _log(table: Table) -> Log:
    known_keys(table, ("file", "load"), "log")
    file, load = table.get("file"), table.get("load")
    if not isinstance(file, str) or not file:
        raise InputError("log.file", file, "must be the path of a job log", 'write file = "log.swf.gz"')
    if load is not None:
        within("log.load", load, "log.load")
    return Log(Path(file), load)


def processors_of(data: Table, source: JobSource) -> int:
    """The processors of the machine; 0 for as many as the log says."""
    size = data.get("processors", 0)
    within("simulated.processors", size, "processors")
    if source.model and not size:
        raise no_processors("[model]", "write processors = 128")
    return int(size)


def no_processors(source: str, remedy: str) -> InputError:
    rule = f"the {source} does not give the number of processors of the machine"
    return InputError("processors", 0, rule, remedy)

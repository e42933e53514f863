"""Jobs without processes (``level = "jobs"``): those of a log or random ones, and which of them count."""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any

from coordinator.migration import Migration
from harness.spec.table_checks import Table, field_names
from workloads.bounds import SIMULATED_PROCESSORS, within
from workloads.machine import ARRIVALS, TAU_S, TOPOLOGY_KEYS
from workloads.parameters import Bounds, Checked, OneOf, OrInfinite
from workloads.validation import InputError, one_of

LEVEL = "jobs"


@dataclass(frozen=True)
class Model(Checked):
    """Random jobs with Sevcik's execution time function."""

    count: Annotated[int, Bounds(2, 10_000_000)] = 20_000  # jobs of a replication
    # "exponential", "hyperexponential" or "geometric" times between arrivals.
    arrivals: Annotated[str, OneOf(ARRIVALS)] = "exponential"
    # Mean demand over the CPU time between two arrivals.
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
class Log(Checked):
    """A job log."""

    file: str  # its path
    # Offered load to which arrivals are stretched; None leaves them unchanged.
    load: Annotated[float, Bounds(1e-6, 1000)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.file, str) or not self.file:
            raise InputError("file", self.file, "must be the path of a job log", 'write file = "log.swf.gz"')


@dataclass(frozen=True)
class JobSource(Checked):
    """Where jobs come from, a log or a model, and how their means are taken."""

    log: Log | None = None
    model: Model | None = None
    warm_up: Annotated[int, Bounds(0, 10_000_000)] = 0  # jobs at the beginning that do not count
    tau_s: Annotated[float, Bounds(1e-9, 1e9)] = TAU_S  # bound of the bounded slowdown
    # Relative half-width of the intervals to reach by replications of the model, and their most.
    half_width: Annotated[float, Bounds(1e-6, 1e6)] = 0.05
    replications: Annotated[int, Bounds(1, 10_000)] = 30
    # What jobs pay that move, or vacate their processors.
    migration: Migration = field(default_factory=Migration)
    content: str = ""  # SHA-256 over the jobs of the log; empty until it has been read

    @property
    def identity(self) -> dict[str, Any]:
        """What results depend on: of a log, its jobs and not where it lies."""
        values = dataclasses.asdict(self)
        content = values.pop("content")
        if self.log:
            values["log"] = {"content": content, "load": self.log.load}
        return values


KEYS = tuple(name for name in field_names(JobSource) if name != "content")
MACHINE_KEYS = (*TOPOLOGY_KEYS, "lost")
SWEPT = {
    "log": field_names(Log),
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
            raise InputError(key, data[key], "is not a key of the experiment, but of its [log]", remedy)
    if ("log" in data) == ("model" in data):
        rule, remedy = (
            "either a job log or a [model] of jobs must be given",
            "write --log FILE, [log] or [model]",
        )
        if "log" in data:
            rule, remedy = "cannot be combined with [model]", "leave one of the two out"
        raise InputError("log", data.get("log"), rule, remedy)
    return JobSource(**{key: data[key] for key in KEYS if key in data})


def processors_of(data: Table, source: JobSource) -> int:
    """The processors of the machine; 0 for as many as the log says."""
    size = data.get("processors", 0)
    within("simulated.processors", size, "processors")
    if source.model and not size:
        raise no_processors("[model]", "write processors = 128")
    return int(size)


def no_processors(source: str, remedy: str) -> InputError:
    return InputError("processors", None, f"needed for {source}, which has no number of processors", remedy)

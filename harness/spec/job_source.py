"""Jobs without processes (``level = "jobs"``): those of a log or random ones, and which of them count."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from coordinator.migration import Migration
from harness.spec.job_models import KINDS, USUAL, JobModel
from harness.spec.scheduler import JobScheduler, of_jobs
from harness.spec.table_checks import Table, field_names
from workloads.bounds import within
from workloads.machine import TAU_S, TOPOLOGY_KEYS
from workloads.parameters import Bounds, Checked, Schema, TableOfKind
from workloads.validation import InputError, one_of, under

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEVEL = "jobs"

ESTIMATES = "estimates"  # how all begins that results say is assumed of them


class DrawnEstimates:
    """How estimates are drawn: each is its job's run time times a factor, uniformly between two numbers."""

    FORM = re.compile(r"times ([0-9]{1,4}(?:\.[0-9]{1,6})?) to ([0-9]{1,4}(?:\.[0-9]{1,6})?)")
    FACTORS = Bounds(1, 1000)
    STREAM = 1  # of the seed's random numbers

    def check(self, key: str, value: Any) -> None:
        match = self.FORM.fullmatch(value) if isinstance(value, str) else None
        smallest, largest = self.FACTORS.minimum, self.FACTORS.maximum
        if not match or not smallest <= float(match[1]) <= float(match[2]) <= largest:
            raise InputError(
                key,
                value,
                f'must be "times A to B" with {smallest} <= A <= B <= {largest}, factors of the run times',
                'write estimates = "times 1 to 5", or leave it out for those of the log',
            )

    @property
    def json_schema(self) -> Schema:
        return {"type": "string", "pattern": f"^{self.FORM.pattern}$"}

    @classmethod
    def draw(cls, text: str, jobs: int, seed: int) -> "NDArray[np.float64]":
        """A factor for each job, by a text that was checked."""
        import numpy as np  # noqa: PLC0415 - slow to load

        match = cls.FORM.fullmatch(text)
        assert match
        # Numbers of its own: by those of the seed alone, log_window decides which of equal jobs is larger.
        return np.random.default_rng([seed, cls.STREAM]).uniform(float(match[1]), float(match[2]), jobs)

    @staticmethod
    def reason(text: str) -> str:
        """How results tell that estimates are drawn."""
        return f"{ESTIMATES} drawn: {text} of the run time"


class LogPath:
    """The path of a job log."""

    def check(self, key: str, value: Any) -> None:
        if not isinstance(value, str) or not value:
            raise InputError(key, value, "must be the path of a job log", 'write file = "log.swf.gz"')

    json_schema: ClassVar[Schema] = {"type": "string", "minLength": 1}


@dataclass(frozen=True)
class LogTable(Checked):
    """The keys of ``[log]`` that do not depend on whether its jobs have processes."""

    file: Annotated[str, LogPath()]
    # How estimates are drawn that replace those of the log; None leaves them.
    estimates: Annotated[str, DrawnEstimates()] | None = None
    # The site's, under which simulated waits are compared with recorded ones; its table, or None.
    scheduler: JobScheduler | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.scheduler, Mapping):
            with under("scheduler"):
                object.__setattr__(self, "scheduler", of_jobs(self.scheduler))
        elif self.scheduler is not None and not isinstance(self.scheduler, JobScheduler):
            raise InputError(
                "scheduler",
                self.scheduler,
                "must be a table, as [[schedulers]] are",
                'write scheduler = { policy = "easy" }',
            )


@dataclass(frozen=True)
class Log(LogTable):
    """A job log whose jobs have no processes."""

    # Offered load to which arrivals are stretched; None leaves them unchanged.
    load: Annotated[float, Bounds(1e-6, 1000)] | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """What results depend on in addition to the jobs of the file."""
        values = {"estimates": self.estimates, "scheduler": self.scheduler and self.scheduler.table}
        return {"load": self.load} | {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True)
class JobSource(Checked):
    """Where jobs come from, a log or a model, and how their means are taken."""

    log: Log | None = None
    model: Annotated[JobModel, TableOfKind(KINDS, USUAL)] | None = None
    warm_up: Annotated[int, Bounds(0, 10_000_000)] = 0  # jobs at the beginning that do not count
    tau_s: Annotated[float, Bounds(1e-9, 1e9)] = TAU_S  # bound of the bounded slowdown
    # Relative half-width of the intervals to reach by replications of the model, and their most.
    half_width: Annotated[float, Bounds(1e-6, 1e6)] = 0.05
    replications: Annotated[int, Bounds(1, 10_000)] = 30
    # Whether all jobs of a model count, up to the end of the last one, rather than those of a steady state.
    terminating: bool = False
    # What jobs pay that move, or vacate their processors.
    migration: Migration = field(default_factory=Migration)
    content: str = ""  # SHA-256 over the jobs of the log; empty until it has been read

    @property
    def identity(self) -> dict[str, Any]:
        """What results depend on: of a log, its jobs and not where it lies."""
        values = dataclasses.asdict(self)
        content = values.pop("content")
        if self.log:
            values["log"] = {"content": content, **self.log.changes}
        if self.model:
            values["model"] = self.model.table
        return values


LOG_MINUTES = 20.0
"""How long the part of a log lasts in a run (``harness.spec.log_window``)."""

OF_WINDOWS = ("from", "hours", "jobs", "minutes", "machine", "estimates")
"""Keys of ``[log]`` whose jobs have processes, and which a sweep may vary."""


def log_place(file: str, folder: Path) -> Path:
    """Where a log lies that an experiment in ``folder`` names: there, or in the current directory."""
    return folder / file if (folder / file).exists() else Path(file)


TAU_OF_LOGS_S = 10.0
"""The bound of the bounded slowdown in the time of a log (Feitelson and Rudolph 1998)."""


@dataclass(frozen=True)
class ScaledWindow:
    """What became of the jobs of a part of a log (``harness.spec.log_window``).

    Each pair has the value in the log and the one in the experiment.
    """

    file: str  # the path of the log
    content: str  # SHA-256 over the jobs, in hexadecimal
    numbers: tuple[int, ...]  # of the jobs in the log, in order of arrival
    skipped: Mapping[str, int]  # how many jobs of the log were left out, by reason
    assumed: Mapping[str, int]  # how many jobs have values that the log does not give, by reason
    run_factor: float  # run times over those in the log
    processors: tuple[int, int]
    span_s: tuple[float, float]  # from the begin of the window to its end
    load: tuple[float, float]  # work of all jobs over what the machine does in that time
    run_s: tuple[float, float]  # the median run time
    sizes: tuple[Mapping[str, float], Mapping[str, float]]  # share of the work, by processors
    # Recorded waits and simulated ones (``harness.predict.recorded_waits``), as plain values, if the
    # scheduler of the site is known.
    recorded_waits: Mapping[str, Any] | None = None
    # Of each job that follows another: its place in ``numbers``, that of the other, ``After.think_ns``, and
    # its own time of arrival in seconds.
    following: tuple[tuple[int, int, int, float], ...] = ()

    @property
    def arrival_factor(self) -> float:
        """The times between arrivals over those in the log."""
        return self.span_s[1] / self.span_s[0]

    @property
    def tau_s(self) -> float:
        """The bound of the bounded slowdown, on the scale of the run times."""
        return TAU_OF_LOGS_S * self.run_factor

    @property
    def table(self) -> dict[str, Any]:
        """It as plain values, for ``of_table``."""
        values = dataclasses.asdict(self)
        if not self.following:
            del values["following"]  # as in versions that did not know them
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    @classmethod
    def of_table(cls, table: Mapping[str, Any]) -> Self:
        values: dict[str, Any] = {key: _tuple(value) for key, value in table.items()}
        return cls(**values)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


KEYS = tuple(name for name in field_names(JobSource) if name != "content")
MACHINE_KEYS = (*TOPOLOGY_KEYS, "lost")
SWEPT = {
    "log": tuple(name for name in field_names(Log) if name != "scheduler"),
    "model": ("kind", *dict.fromkeys(name for model in KINDS.values() for name in field_names(model))),
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

"""Settings of MPI, of threads and two-phase waits as schedulers of an experiment, and that experiment.

Programs run as their users start them. A setting changes their environment, or preloads the library of
two-phase waits; Linux schedules their processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from coordinator.policies import create
from harness.spec.experiment import Cell, Experiment, usable_processors
from harness.spec.jobs import JobGroup
from harness.spec.scheduler import Scheduler, scheduler_of
from workloads.native.settings import LIBRARY_SETTINGS, LibrarySetting
from workloads.options import Options
from workloads.work import CommandLine, Work

if TYPE_CHECKING:
    from workloads.native import Library

AS_IT_IS, TWO_PHASE = "as it is", "two-phase"
"""The names of two settings: nothing is changed; processes wait two-phase."""

ORDER = (AS_IT_IS, TWO_PHASE, *(setting.name for setting in LIBRARY_SETTINGS))
"""The names of settings in the order of tables; two settings together come last."""


class Preload(NamedTuple):
    """The library of two-phase waits for a program, and the variables by which it knows its rule."""

    library: Library
    variables: Mapping[str, str]
    named: bool = False  # whether the user has named its MPI


@dataclass(frozen=True)
class Setting(Scheduler):
    """Programs run as they are started, with some variables or with two-phase waits."""

    setting: str = AS_IT_IS  # its name
    environment: tuple[tuple[str, str], ...] = ()  # what it sets for all programs
    lines: tuple[str, ...] = ()  # the lines with which people set it
    of_mpi: bool = field(default=True, compare=False)  # whether it is of MPI, and not of threads
    # What lets programs wait two-phase; records do not have these paths in a cache.
    preloads: Mapping[Work, Preload] = field(default_factory=dict, compare=False, repr=False)

    @property
    def not_simulated(self) -> str:
        return "programs with a setting run as their users start them, which is not simulated"

    @property
    def table(self) -> dict[str, Any]:
        own = {"environment": dict(self.environment), "lines": list(self.lines)}
        return {**super().table, "setting": self.setting, **own}

    def beside(self, other: Self) -> Self:
        """Both settings at once: this one of MPI, the other of threads."""
        return replace(
            self,
            setting=f"{self.setting} with {other.setting}",
            environment=tuple(sorted({*self.environment, *other.environment})),
            lines=(*other.lines, *self.lines),
        )


UNCHANGED = Setting("none", create("none", {}), Options(bind=False))
"""The setting under which programs run as they are."""


def of_library(setting: LibrarySetting) -> Setting:
    behind = (f"or: {setting.words()} (after the launcher's name)",) if setting.of_mpi else ()
    return replace(
        UNCHANGED,
        setting=setting.name,
        environment=tuple(sorted(setting.variables.items())),
        lines=(setting.line(), *behind),
        of_mpi=setting.of_mpi,
    )


def of_table(table: Mapping[str, Any]) -> Scheduler:
    """The scheduler in a record; of a setting it lacks what it takes to run programs with it."""
    if "setting" not in table:
        return scheduler_of(dict(table))
    common = {key: value for key, value in table.items() if key not in ("setting", "environment", "lines")}
    return replace(
        UNCHANGED,
        options=scheduler_of(common).options,
        setting=table["setting"],
        environment=tuple(sorted(table["environment"].items())),
        lines=tuple(table["lines"]),
    )


def place(table: Mapping[str, Any]) -> tuple[int, str]:
    """Where a setting stands among others."""
    name = str(table["setting"])
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def experiment(
    commands: Sequence[Sequence[str]],
    copies: int,
    settings: Sequence[Setting],
    *,
    repeats: int,
    timeout_factor: float,
) -> Experiment:
    """So many copies of each command, all at a time and each program alone, with each setting."""
    groups = tuple(JobGroup(CommandLine(tuple(words)), copies) for words in commands)
    processors = len(usable_processors())
    return Experiment(
        name="tune",
        processors=processors,
        repeats=repeats,
        min_repeats=repeats,
        seed=1,
        schedulers=tuple(settings),
        cells=(Cell(0, {}, groups, {}, processors),),
        timeout_factor=timeout_factor,
    )

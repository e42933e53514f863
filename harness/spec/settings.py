"""Settings of MPI, of threads and two-phase waits as schedulers of an experiment.

Programs run as their users start them. A setting changes their environment, or preloads the library of
two-phase waits; Linux schedules their processes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from coordinator.policies.sharing import Uncoordinated
from coordinator.workload import Workload
from harness.spec.scheduler import IMPLICIT, THROUGH_SLURM, Scheduler, scheduler_of
from harness.spec.table_checks import Table, as_table
from workloads.native.settings import FITS, LIBRARY_SETTINGS, LibrarySetting
from workloads.options import Options
from workloads.validation import InputError, known_keys, one_of
from workloads.waiting_rules import RULES
from workloads.work import Work, check_environment

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
    certain: bool = True  # whether the program is known to use that MPI


@dataclass(frozen=True)
class Setting(Scheduler):
    """Programs run by their own command lines, with some variables or with two-phase waits."""

    decides = False
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


UNCHANGED = Setting("none", Uncoordinated(), Options(bind=False))
"""The setting under which programs run unmodified."""


def of_library(setting: LibrarySetting) -> Setting:
    behind = (f"or: {setting.words()} (after the launcher's name)",) if setting.of_mpi else ()
    return replace(
        UNCHANGED,
        setting=setting.name,
        environment=tuple(sorted(setting.variables.items())),
        lines=(setting.line(), *behind),
        of_mpi=setting.of_mpi,
    )


OF_TWO_PHASE = ("waiting", "spin_switches")
"""Keys that mean something to two-phase waits only."""

USUAL_RULE: Mapping[str, Any] = {
    "waiting": IMPLICIT,
    "spin_switches": Options.spin_switches,
    "context_switch_us": Workload.context_switch_us,
    "latency_us": Workload.latency_us,
}


def exec_line(rule: Mapping[str, Any], command: Sequence[str], *more: str) -> str:
    """The line that runs a command with two-phase waits by this rule, with ``more`` options of exec."""
    unusual = {name: rule[name] for name, usual in USUAL_RULE.items() if rule.get(name, usual) != usual}
    words = [word for name, value in unusual.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return shlex.join(["lockstep", "exec", *words, *more, "--", *command])


def are_settings(tables: Any) -> bool:
    """Whether [[schedulers]] tables name settings; then each must, and commands run as users start them."""
    return isinstance(tables, list) and any(isinstance(one, dict) and "setting" in one for one in tables)


def of_file(table: Table) -> Setting:
    """The setting that a [[schedulers]] table names: one of ``ORDER``, or another name with what it sets."""
    known_keys(table, ("setting", "environment", *OF_TWO_PHASE), "")
    name = table.get("setting")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(
            "setting",
            name,
            "each [[schedulers]] table names a setting if one does",
            f'write setting = "{AS_IT_IS}"',
        )
    environment = as_table(table.get("environment", {}), "environment")
    check_environment(environment)
    asked = {key: table[key] for key in OF_TWO_PHASE if key in table}
    found = next((of_library(one) for one in LIBRARY_SETTINGS if one.name == name), UNCHANGED)
    if name == TWO_PHASE:
        one_of("waiting", asked.setdefault("waiting", IMPLICIT), [one for one in RULES if one != "oracle"])
        options = scheduler_of({"policy": "none", "bind": False, **asked}).options
        found = replace(UNCHANGED, setting=name, options=options, lines=(exec_line(asked, ["COMMAND"]),))
    elif asked:
        key, value = asked.popitem()
        raise InputError(key, value, f"needs the setting {TWO_PHASE!r}", "leave it out")
    if not environment:
        _check_known(name, found)
        return found
    if name == AS_IT_IS:
        raise InputError(
            "environment",
            dict(environment),
            f"must be empty for {AS_IT_IS!r}, which changes nothing",
            "choose another name",
        )
    values = tuple(sorted(environment.items()))
    line = "export " + " ".join(f"{key}={shlex.quote(value)}" for key, value in values)
    lines = (line, *found.lines) if name == TWO_PHASE else (line,)
    return replace(found, setting=name, environment=values, lines=lines)


def _check_known(name: str, found: Setting) -> None:
    """Refuse a name without an environment, unless it says what to set on any host."""
    if name not in ORDER or FITS in dict(found.environment).values():
        rule = f"what the setting {name!r} sets is not known" if name not in ORDER else "depends on the host"
        raise InputError("environment", None, rule, 'write environment = { OMP_NUM_THREADS = "2" }')


def of_table(table: Mapping[str, Any]) -> Scheduler:
    """The scheduler in a record; of a setting it lacks what it takes to run programs with it."""
    if table == THROUGH_SLURM.table:
        return THROUGH_SLURM
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

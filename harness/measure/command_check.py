"""What will hurt a command here, without a start of anything of it (``lockstep doctor -- COMMAND``)."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from coordinator.host import quotas
from coordinator.host.bindings import Mask
from coordinator.host.launcher_choice import candidates
from coordinator.host.launcher_options import COUNTS
from coordinator.host.launchers import Launcher, OpenMpi, kind_at
from coordinator.host.named_hosts import FILES, of_others
from coordinator.host.processes import name_of
from coordinator.host.rank_processes import RankProcess, RankProcesses
from coordinator.topology import ranges
from harness.measure import python_libraries
from harness.measure.host_check import Finding, shared_memory
from harness.measure.planned_launch import PlannedLaunch, PlannedProgram, host_cores, planned
from workloads import native
from workloads.native.settings import LIBRARY_SETTINGS, MCA, OPENBLAS, OPENMP, THREADS, family_of
from workloads.shared_libraries import needed

LOOK_S = 0.3
"""For how long the ranks of others are watched."""

BINDS_THREADS = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
SPINS_ON = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "inf", "KMP_BLOCKTIME": "inf"}
"""Variables, with the beginnings of values by which threads that wait never sleep."""

ALLOCATIONS = ("SLURM_JOB_ID", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE")
"""Variables of batch systems, which tell launchers how many ranks may start; else Open MPI counts cores."""


@dataclass(frozen=True)
class Spinning:
    """A setting of MPI that hurts if there are more threads, so many in each rank, than processors."""

    name: str  # of MPICH's variables, all three prefixes count
    values: Sequence[str]
    text: str
    threads: int = 1
    of_open_mpi: bool = False


SPINNING = (
    Spinning(
        f"{MCA}mpi_yield_when_idle",
        ("0", "false", "no", "f", "n"),
        "lets ranks spin that would yield",
        of_open_mpi=True,
    ),
    Spinning("MPIR_CVAR_POLLS_BEFORE_YIELD", ("0",), "lets ranks spin that would yield"),
    Spinning(
        "MPIR_CVAR_ASYNC_PROGRESS",
        ("1", "true", "yes", "on"),
        "adds a thread to each rank that spins all the time",
        threads=2,
    ),
)

ROOMY = Finding("shared memory", "")


@dataclass(frozen=True)
class Host:
    """What of a host matters to a command."""

    processors: Mask  # on which this process may run
    quota: float = math.inf  # of its control groups, in processors
    cores: int = 1  # of the whole host, however many processors each has
    root: bool = False
    ranks: Sequence[RankProcess] = ()  # those that run already, of all jobs
    memory: Finding = ROOMY

    @classmethod
    def here(cls, processors: Sequence[int]) -> Host:
        """This host, of which a command may use these processors; its ranks are watched for LOOK_S."""
        running = RankProcesses()
        running.look(time.monotonic())
        time.sleep(LOOK_S)
        return cls(
            Mask(processors),
            min(quotas.quotas().values(), default=math.inf),
            host_cores(),
            os.getuid() == 0,
            [one for one in running.look(time.monotonic()) if os.getpid() not in one.pids],
            shared_memory(),
        )


def check(command: Sequence[str], variables: Mapping[str, str], host: Host) -> list[Finding]:
    """What will hurt, in a sentence with its reason, and what to write instead."""
    launches = planned(command, variables, host.processors)
    situations = [_Situation(launch, host) for launch in launches]
    found = (one for situation in situations for rule in RULES for one in rule(situation))
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class _Situation:
    """A launch on a host."""

    launch: PlannedLaunch
    host: Host

    @cached_property
    def kind(self) -> type[Launcher] | None:
        return self.launch.kind

    @cached_property
    def libraries(self) -> dict[PlannedProgram, list[Path]]:
        """What each program would load."""
        return {one: _libraries(one, self.launch.variables) for one in self.launch.programs}

    @cached_property
    def threaded(self) -> list[str]:
        """The libraries with threads among them."""
        families = {family_of(file) for files in self.libraries.values() for file in files}
        return [family for family in THREADS if family in families]

    @property
    def launcher(self) -> str:
        return Path(self.launch.launcher).name

    @property
    def is_open_mpi(self) -> bool:
        return self.kind is not None and issubclass(self.kind, OpenMpi)

    @property
    def ranks(self) -> int:
        """How many ranks there would be; 0 if that is not known."""
        return self.launch.ranks or 0

    @property
    def room(self) -> float:
        """For how many processors there is CPU time."""
        return min(float(len(self.launch.processors)), self.host.quota)

    @property
    def where(self) -> str:
        """The same in words."""
        count = len(self.launch.processors)
        if self.host.quota < count:
            return f"a quota of {self.host.quota:g} processors"
        return "1 processor" if count == 1 else f"{count} processors"

    @property
    def binding(self) -> str:
        """As ``PlannedLaunch.binding``, on this host."""
        return self.launch.binding(self.host.cores)

    def is_known(self, path: str) -> bool:
        """Whether a path names the same file at the launch: without substitutions, or moves to elsewhere."""
        moved = self.launch.moved and "/" in path and not Path(path).is_absolute()
        return not (moved or set(path) & set("$`"))

    def setting(self, name: str) -> str:
        """The value that the ranks' MPI finds under the name of a variable; empty without one."""
        if not self.launch.launcher:
            return ""
        parameter = name.removeprefix(MCA)
        given = (one.values for one in self.launch.options if one.name == "mca")
        told = dict(one for one in given if len(one) == 2)
        names = [name, *(name.replace("MPIR_CVAR", other) for other in ("MPIR_PARAM", "MPICH"))]
        found = (self.launch.variables.get(one, "") for one in names)
        return told.get(parameter, "") or next(filter(None, found), "")

    def threads(self, family: str) -> int:
        """How many threads a process makes with a library: as a variable says, else one on each processor."""
        texts = (self.launch.variables.get(name, "").partition(",")[0] for name in THREADS[family])
        number = next((int(text) for text in texts if text.isdecimal() and int(text)), 0)
        return number or (1 if self.binding == "core" else len(self.launch.processors))


def _libraries(program: PlannedProgram, variables: Mapping[str, str]) -> list[Path]:
    path, words = program.path, list(program.words[1:])
    if path is None:
        return []
    if path.name.startswith("python"):
        return python_libraries.libraries(path, words, variables)
    if interpreter := python_libraries.interpreter_of(path):
        return python_libraries.libraries(interpreter, [str(path), *words], variables)
    return [found or Path(name) for name, found in needed(path, variables=variables).items()]


def _missing_programs(one: _Situation) -> Iterator[Finding]:
    for program in one.launch.programs:
        if program.path is None and one.is_known(program.words[0]):
            text = f"{program.words[0]} was not found, or is not executable"
            yield Finding("program", text, "check its name, path and mode")


def _threads(one: _Situation) -> Iterator[Finding]:
    ranks, variables = max(1, one.ranks), one.launch.variables
    for family in one.threaded:
        threads = one.threads(family)
        if threads == 1 or ranks * threads <= one.room or variables.get("OMP_DYNAMIC", "").lower() == "true":
            continue
        each = f" in each of {ranks} ranks" if ranks > 1 else ""
        text = f"{threads} threads of {family}{each} will spin on {one.where}"
        yield Finding("threads", text, f"{THREADS[family][0]}={max(1, int(one.room / ranks))}")
        for name, value in SPINS_ON.items() if family != OPENBLAS else ():
            if variables.get(name, "").lower().startswith(value):
                text = f"{name}={variables[name]} lets threads that wait take the time of those that work"
                yield Finding("spinning", text, "leave it out")


def _counts(one: _Situation) -> Iterator[Finding]:
    for option in one.launch.options:
        if option.name in COUNTS and one.is_known(option.value):
            words = " ".join(option.words)
            if not option.value.isdecimal() or not int(option.value):
                text = f"{words} of {one.launcher} is no number of ranks"
                yield Finding("count", text, f"a whole number from 1 on, as in {option.words[0]} 4")


def _thread_bindings(one: _Situation) -> Iterator[Finding]:
    threads = max(map(one.threads, one.threaded), default=1)
    counted = any("pe=" in option.value.lower() for option in one.launch.options)
    if one.launch.launcher and one.binding == "core" and threads > 1 and not counted:
        text = f"{one.launcher} binds each rank to one core, where its {threads} threads take turns"
        several = f"--map-by slot:PE={threads}, or --bind-to none" if one.is_open_mpi else "bind to none"
        yield Finding("binding", text, several)
    if OPENMP in one.threaded and one.ranks > 1 and one.binding == "none":
        for name in BINDS_THREADS:
            value = one.launch.variables.get(name, "")
            if value and value.lower() not in ("false", "none", "disabled"):
                text = f"{name}={value} binds the threads of all {one.ranks} ranks to the same processors"
                remedy = "leave it out, or let the launcher bind each rank to processors of its own"
                yield Finding("binding", text, remedy)
                return


def _too_many_ranks(one: _Situation) -> Iterator[Finding]:
    variables = one.launch.variables
    settings = [each.variables for each in LIBRARY_SETTINGS if each.of_mpi]
    gives_way = any(each.items() <= variables.items() for each in settings)
    if not one.launch.launcher or one.ranks <= one.room or one.launch.two_phase or gives_way:
        return
    text = f"{one.ranks} ranks will spin on {one.where}, in the time of those for which they wait"
    yield Finding("ranks", text, "lockstep exec -- in front of the command, or fewer ranks")


def _spinning_ranks(one: _Situation) -> Iterator[Finding]:
    """Settings of the MPI by which ranks spin in the time of those for which they wait."""
    for setting in SPINNING:
        value = one.setting(setting.name)
        fits = setting.threads * one.ranks <= one.room or (one.launch.two_phase and setting.threads == 1)
        if value.lower() in setting.values and one.is_open_mpi == setting.of_open_mpi and not fits:
            yield Finding(
                "spinning", f"{setting.name}={value} {setting.text}, on {one.where}", "leave it out"
            )


def _refusals(one: _Situation) -> Iterator[Finding]:
    options, variables = {option.name for option in one.launch.options}, one.launch.variables
    mapping = (one.launch.option("map-by") or "").lower()
    allowed = "allow-run-as-root" in options or "OMPI_ALLOW_RUN_AS_ROOT" in variables
    if one.is_open_mpi and one.host.root and not allowed:
        yield Finding("root", f"{one.launcher} of Open MPI refuses to run as root", "--allow-run-as-root")
    counted = options & {*FILES, "host", "H", "hosts"} or any(name in variables for name in ALLOCATIONS)
    over = any("oversubscribe" in text.lower() for text in (*options, mapping, *variables))
    by_threads = "use-hwthread-cpus" in options or "hwtcpus" in mapping
    if one.ranks <= one.host.cores:
        return
    if one.is_open_mpi and not (counted or over or by_threads):
        text = f"{one.launcher} of Open MPI refuses {one.ranks} ranks on {one.host.cores} cores"
        yield Finding("slots", text, "--oversubscribe, or fewer ranks")
    elif one.binding == "core" and "overload-allowed" not in (one.launch.option("bind-to") or ""):
        then = "Open MPI refuses them" if one.is_open_mpi else "some cores get several"
        text = f"{one.ranks} ranks cannot be bound to {one.host.cores} cores, one to each, and {then}"
        yield Finding("binding", text, " ".join(one.kind.unbound) if one.kind else "bind to none")


def _undone_taskset(one: _Situation) -> Iterator[Finding]:
    if one.is_open_mpi and "taskset" in one.launch.wrappers and one.binding == "core":
        text = f"taskset has no effect on {one.launcher} of Open MPI, which binds ranks from processor 0 on"
        yield Finding("taskset", text, f"--cpu-set {ranges(one.launch.processors)}, or --bind-to none")


def _other_mpi(one: _Situation) -> Iterator[Finding]:
    for program, files in one.libraries.items() if one.kind else ():
        names = [file.name for file in files]
        if one.kind and (name := next(one.kind.foreign(names), "")):
            kinds = ((path, kind_at(path)) for path in candidates())
            fitting = (path for path, kind in kinds if kind and not any(kind.foreign(names)))
            text = (
                f"{one.launcher} is of another MPI ({one.kind.kind}) than {program.words[0]}, which loads "
                f"{name}, so each rank is rank 0 of 1"
            )
            yield Finding("MPI", text, f"start it with {next(fitting, 'the launcher of its own MPI')}")


def _other_hosts(one: _Situation) -> Iterator[Finding]:
    options = one.launch.options if one.launch.launcher else ()
    words = [one.launcher, *(word for option in options for word in option.words)]
    for name in dict.fromkeys(of_others([words], one.launch.variables)) if one.launch.launcher else ():
        text = f"{name} names other hosts, where ranks may start and nothing is checked"
        yield Finding("hosts", text, "leave it out, or check there, too")
    for option in options:
        named = option.name in FILES and option.value and one.is_known(option.value)
        if named and not os.access(option.value, os.R_OK):
            text = f"{option.words[0]} {option.value} cannot be read"
            yield Finding("hosts", text, "check its name and mode")


def _no_wrapper(one: _Situation) -> Iterator[Finding]:
    """Of the launches that ``lockstep exec`` starts, or for which another line recommends it."""
    if one.launch.launcher and (one.launch.two_phase or any(_too_many_ranks(one))):
        try:
            native.wrapper([one.launch.launcher])
        except native.NativeError as error:
            text, _, remedy = str(error).partition(": ")
            yield Finding("mpicc", f"{text}, and lockstep exec needs it", remedy)


def _little_memory(one: _Situation) -> Iterator[Finding]:
    if one.launch.launcher and one.ranks != 1 and one.host.memory.remedy:
        text = f"{one.host.memory.found}, where ranks share memory, and they end by signal 7 if it is full"
        yield Finding("shared memory", text, one.host.memory.remedy)


def _other_ranks(one: _Situation) -> Iterator[Finding]:
    near = [rank for rank in one.host.ranks if rank.busy and rank.mask & one.launch.processors]
    if not near or not (one.launch.launcher or one.threaded):
        return
    names = ", ".join(dict.fromkeys(f"{name_of(rank.launcher)} {rank.launcher}" for rank in near))
    where = ranges(Mask().union(*(rank.mask for rank in near)) & one.launch.processors)
    text = f"ranks of {names} use processors {where}"
    threads = max(map(one.threads, one.threaded), default=1)
    wanted = max(1, one.ranks) * threads + sum(rank.busy or 0 for rank in near)
    if one.binding == "core" and any(rank.mask < one.launch.processors for rank in near):
        text = f"{text}, and {one.launcher} binds ranks from processor 0 on in any case"
        yield Finding("other ranks", text, "lockstep exec --spread -- in front of it, or --bind-to none")
    elif wanted > one.room:
        text = f"{text}, which are too few for both ({wanted} threads want one)"
        yield Finding("other ranks", text, "wait for their end, or let them take turns (lockstep turns)")


RULES = (
    *(_missing_programs, _counts, _threads, _thread_bindings, _too_many_ranks, _spinning_ranks),
    *(_refusals, _undone_taskset),
    *(_other_mpi, _other_hosts, _no_wrapper, _little_memory, _other_ranks),
)

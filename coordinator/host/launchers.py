"""The kinds of launchers of MPI programs: command lines, environments, how they pass variables on.

Another launcher is another class with ``register``, in this file or in one that imports it.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from coordinator.host.environment import HELD, STEP, UNDO, Variables, forwarded, of_command, undone
from workloads import shared_libraries
from workloads.own_directories import check_own

Words = Sequence[str]


@dataclass(frozen=True)
class Launcher(ABC):
    """A program that starts MPI ranks; each kind is a subclass in ``LAUNCHERS``."""

    kind: ClassVar[str]  # its name in messages and records
    programs: ClassVar[Sequence[str]] = ("mpiexec", "mpirun")  # file names under which it is found
    signs: ClassVar[Sequence[str]] = ()  # words in the first lines of its ``--version``, in every version
    srun_plugin: ClassVar[str] = ""  # Slurm's plugin with which srun starts ranks of the same MPI
    # Whether it starts children on its host, which live as long as its ranks do.
    has_children: ClassVar[bool] = True
    may_lose_signals: ClassVar[bool] = False  # whether it loses a signal of its first milliseconds
    # The variables of an allocation that it gets even if all its ranks are on one host.
    keeps: ClassVar[tuple[str, ...]] = ()
    rank: ClassVar[str] = ""  # the variable in which it gives a process its rank
    # Those that users may give it, without hyphens: with 0, 1 and 2 words behind them.
    options: ClassVar[Sequence[str]] = ()
    places: ClassVar[str] = ""  # those by which it would place or bind processes, with a word behind them
    places_alone: ClassVar[str] = ""  # those of this kind without one
    # Whether the release of a run on this host ends this launcher; if not, the launched agent releases first.
    ends_with_run: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ()  # beginnings of libraries that only such launchers load
    # Its options that bind ranks to no processor, and other spellings of users, without hyphens.
    unbound: ClassVar[tuple[str, ...]] = ("--bind-to", "none")
    unbinding: ClassVar[Sequence[str]] = ("bind-to none",)
    # Libraries of MPIs whose ranks do not find each other under it.
    incompatible_mpis: ClassVar[tuple[str, ...]] = ()

    path: str  # path of the program
    version: str  # its version

    def __str__(self) -> str:
        return f"{self.kind} {self.version} ({self.path})"

    @abstractmethod
    def argv(self, processes: int, command: Words, hosts: Words = (), options: Words = ()) -> list[str]:
        """The command line that runs ``command`` in ``processes`` processes, bound to no core.

        ``hosts`` has the host of each rank, none if all are here. ``options`` are a user's (``accepted``).
        """

    def together(self, command: Words, hosts: Words) -> list[str]:
        """The command line that starts ``command`` once on each host; empty if the launcher cannot.

        The end of a process, or the loss of a host, ends no other. Each process finds its place among
        ``hosts`` in the variable ``rank``. All of them get the launcher's standard input, or the first does
        and the launcher has a key-value space (PMI 1).
        """
        return []

    def environment(
        self,
        extra: Variables,
        source: Variables | None = None,
        *,
        hosts: Words = (),
        command: Variables | None = None,
    ) -> dict[str, str]:
        """The environment for the launcher: ``environment.forwarded`` and the variables that its kind needs.

        ``hosts`` is as in ``argv``. Only a launcher that must use Slurm's allocation sees it. A command of
        users, with variables ``command``, gets ``environment.of_command``. HELD has what would change the
        launcher or our Python, or gets lost between hosts; ``node.exec_rank`` restores it.
        """
        source = undone(os.environ) if source is None else source
        needed = self.needs()
        variables, hidden = source, tuple[str, ...]()
        if command is not None:
            hidden = ("BASH_FUNC_", *(name for name in command if name.startswith("PYTHON")))
            variables = of_command(command, source)
        if self.keeps:  # it tells its ranks all about the allocation
            variables = {n: v for n, v in variables.items() if n in self.keeps or not n.startswith("SLURM_")}
        elif not hosts:
            hidden = (*hidden, "SLURM_")
        elif "SLURM_JOB_ID" in source:
            needed["SLURM_OVERLAP"] = "1"  # otherwise launches wait for each other
        visible = {name: value for name, value in variables.items() if not name.startswith(hidden)}
        if command is None:
            return forwarded(needed | dict(extra), visible)
        held = {"PYTHONPATH", *(variables.keys() - visible.keys()), *(command.keys() & extra.keys())}
        rest = json.dumps({name: variables.get(name) for name in held})
        return {**needed, **visible, **extra, "PYTHONPATH": forwarded({}, visible)["PYTHONPATH"], HELD: rest}

    def needs(self) -> dict[str, str]:
        """The variables that it needs."""
        return {}

    def memory_apart(self, place: Path) -> dict[str, str]:
        """Variables for ranks on this host, which then share memory in ``place``; makes that directory."""
        return {}

    def strange(self, program: str) -> str:
        """The library of another MPI that a program loads; empty if there is none, or it is unknown."""
        return next(self.foreign(shared_libraries.needed(Path(program))), "")

    @classmethod
    def foreign(cls, libraries: Iterable[str]) -> Iterator[str]:
        """Those of the libraries that belong to an MPI whose ranks do not find each other under it."""
        return (name for name in libraries if name.startswith(tuple(cls.incompatible_mpis)))

    def found_again(self) -> Launcher | None:
        """The launcher that is at the same path now."""
        return at_path(self.path)

    @classmethod
    def words(cls, command: list[str], variables: Variables, source: Variables) -> list[str]:
        """The words of a command which, if it is such a launcher, gives ``variables`` to all ranks."""
        return command

    @classmethod
    def told(cls, variables: Variables, libraries: Iterable[str], source: Variables) -> dict[str, str]:
        """Further variables with which such a launcher in ``source`` passes ``variables`` on to all ranks."""
        return {}


LAUNCHERS: dict[str, type[Launcher]] = {}  # all kinds of launchers by name

L = TypeVar("L", bound=type[Launcher])


def register(launcher: L) -> L:
    """Make a kind of launcher known; launchers are tried in this order."""
    LAUNCHERS[launcher.kind] = launcher
    return launcher


@register
class Hydra(Launcher):
    """The launcher of MPICH and its derivatives."""

    kind = "mpich"
    signs = ("HYDRA",)
    srun_plugin = "pmi2"
    may_lose_signals = True
    rank = "PMI_RANK"
    unbound = ("-bind-to", "none")
    unbinding = ("bind-to none", "binding none")
    incompatible_mpis = ("libopen-rte.so", "libopen-pal.so")
    options: ClassVar = (
        "genvall envall l prepend-rank pmi-port print-all-exitcodes v verbose",
        "wdir iface usize prepend-pattern outfile-pattern errfile-pattern launcher launcher-exec demux",
        "genv env",
    )
    places = (
        "bind-to binding map-by membind rankmap hosts host f hostfile machinefile ppn perhost order-nodes "
        "localhost gpus-per-proc"
    )
    places_alone = "skip-launch-node"

    LEAVES_OUT: ClassVar = {"-genvnone", "-genvlist", "-envnone", "-envlist"}
    """Options with which it does not pass everything on; HYDRA_ENV stands for one of them."""

    def argv(self, processes: int, command: Words, hosts: Words = (), options: Words = ()) -> list[str]:
        runs = ",".join(f"{host}:{count}" for host, count in _runs(hosts))
        where = ["-hosts", runs] if runs else []
        return [self.path, *self.unbound, *where, *options, "-n", str(processes), *command]

    def together(self, command: Words, hosts: Words) -> list[str]:
        return self.argv(len(hosts), command, hosts, ["-disable-auto-cleanup"])

    def needs(self) -> dict[str, str]:
        """An empty topology file, or Hydra leaves one in /tmp when it is killed or a rank aborts."""
        return {"HWLOC_XMLFILE": os.devnull}

    @classmethod
    def words(cls, command: list[str], variables: Variables, source: Variables) -> list[str]:
        """The command with -genv for each variable, if it leaves out variables."""
        program = Path(command[0]).name
        by_variable = program.startswith("mpi") and "HYDRA_ENV" in source
        if program in Srun.programs or not (cls.LEAVES_OUT & set(command) or by_variable):
            return command
        words = [word for name, value in variables.items() for word in ("-genv", name, value)]
        return [command[0], *words, *command[1:]]


@register
class OpenMpi(Launcher):
    """The launcher of Open MPI."""

    kind = "openmpi"
    programs: ClassVar[Sequence[str]] = (*Launcher.programs, "orterun")
    signs: ClassVar[Sequence[str]] = ("Open MPI", "OpenRTE")
    srun_plugin = "pmix"
    rank = "OMPI_COMM_WORLD_RANK"
    unbinding = ("bind-to none", "bind-to-none")
    incompatible_mpis = ("libmpi.so.12", "libmpich.so.12")
    options: ClassVar = (
        "allow-run-as-root oversubscribe tag-output timestamp-output report-bindings q quiet v verbose",
        "x wdir wd path prefix am tune output output-filename",
        "mca gmca omca pmixmca prtemca",
    )
    places = (
        "bind-to map-by rank-by rankfile rf H host hostfile machinefile default-hostfile cpu-set cpu-list "
        "cpus-per-proc cpus-per-rank slot-list N npernode npersocket app"
    )
    places_alone = (
        "bind-to-core bind-to-socket bind-to-none use-hwthread-cpus pernode bynode bycore byslot nolocal "
        "nooversubscribe"
    )

    UNCOUNTED: ClassVar[tuple[str, ...]] = ("--oversubscribe",)
    """Several jobs share the cores, so Open MPI must not count slots."""

    MEMORY: ClassVar = tuple(
        f"OMPI_MCA_{part}_backing_directory" for part in ("btl_sm", "btl_vader", "osc_sm", "osc_rdma")
    )
    """Where its parts keep the files of shared memory: ``btl_sm`` of 5.0 was ``btl_vader`` in 4.1."""

    LISTS: ClassVar = {
        "libopen-rte": "OMPI_MCA_mca_base_env_list_internal",
        "libopen-pal": "OMPI_MCA_mca_base_env_list",
    }
    """Open MPI up to 4, then 5, by a library that it has: the variable that lists variables to pass on.

    Open MPI 4 refuses the second one alongside ``-x``, and Open MPI 5 does not know the first.
    """

    libraries = tuple(LISTS)

    def argv(self, processes: int, command: Words, hosts: Words = (), options: Words = ()) -> list[str]:
        argv = [self.path, *self.unbound, *self.UNCOUNTED]
        if not hosts:
            return [*argv, *options, "-n", str(processes), *command]
        # A context for each group of ranks on one host: Open MPI would reorder a single list of hosts.
        parts = [
            [*options, "--host", f"{host}:{count}", "-n", str(count), *command]
            for host, count in _runs(hosts)
        ]
        return argv + [word for part in parts for word in (":", *part)][1:]

    def needs(self) -> dict[str, str]:
        """With more ranks than cores Open MPI would yield while it polls: no spinning at all."""
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {"OMPI_MCA_mpi_yield_when_idle": "0", **(allowed if os.getuid() == 0 else {})}

    def memory_apart(self, place: Path) -> dict[str, str]:
        """As any launcher's.

        Without these variables Open MPI puts its files into /dev/shm, and their names differ by 15 bits of a
        digest of the job: if these are the same, of two jobs one ends by SIGSEGV.
        """
        try:
            for folder in (place.parent, place):
                folder.mkdir(mode=0o700, exist_ok=True)
                check_own(folder)
        except OSError:  # there is no /dev/shm, for example
            return {}
        return dict.fromkeys(self.MEMORY, str(place))

    @classmethod
    def told(cls, variables: Variables, libraries: Iterable[str], source: Variables) -> dict[str, str]:
        """Its list of variables; a name stands for the value at the launch, with what a script adds."""
        variable = next(
            (cls.LISTS[sign] for sign in cls.LISTS for name in libraries if name.startswith(sign)), None
        )
        if variable is None:
            return {}
        # The launcher reads a value with "=" that it looks up itself as a name and a value.
        words = [f"{name}={value}" if "=" in value else name for name, value in variables.items()]
        return {variable: ";".join(filter(None, [source.get(variable), *words]))}


@register
class Prrte(OpenMpi):
    """The launcher on which Open MPI's is built since 5.0, installed by itself."""

    kind = "prrte"
    programs = ("prterun",)
    signs = ("PRRTE",)
    rank = "PMIX_RANK"
    libraries = ("libprrte",)
    UNCOUNTED = ("--map-by", ":OVERSUBSCRIBE")


@register
@dataclass(frozen=True)
class Srun(Launcher):
    """Starts ranks as a step of our Slurm allocation, with MPI through ``plugin``, by default Slurm's."""

    kind = "srun"
    programs = ("srun",)
    signs = ("slurm",)
    has_children = False
    keeps: ClassVar[tuple[str, ...]] = ("SLURM_CONF", "SLURM_JOB_ID")
    """They identify the allocation; others would act as options that the user never set."""

    rank = "SLURM_PROCID"
    options: ClassVar = ("l label u unbuffered v verbose Q", "export mpi chdir D")
    places = (
        "cpu-bind mem-bind w nodelist N nodes x exclude c cpus-per-task m distribution ntasks-per-node r "
        "relative B extra-node-info F nodefile hint threads-per-core"
    )
    places_alone = "exclusive"
    unbound = ("--cpu-bind=none",)
    unbinding = ("cpu-bind none", "cpu_bind none")

    OPTIONS: ClassVar = ("--overlap", "--overcommit", *unbound, "--mem=0", "--quiet")
    """Several steps share all resources of the job on a node, and ranks bind themselves."""

    EXPORTS: ClassVar = "SLURM_EXPORT_ENV"
    """Stands for --export; srun passes on everything without them."""

    plugin: str = ""

    def __str__(self) -> str:
        return " ".join([self.kind, *self._mpi, self.version, f"({self.path})"])

    @property
    def _mpi(self) -> list[str]:
        return [f"--mpi={self.plugin}"] if self.plugin else []

    def argv(self, processes: int, command: Words, hosts: Words = (), options: Words = ()) -> list[str]:
        hosts = hosts or [os.environ.get("SLURMD_NODENAME", socket.gethostname())] * processes
        return self._step(hosts, ["--kill-on-bad-exit=1", *options], command)

    def together(self, command: Words, hosts: Words) -> list[str]:
        return self._step(hosts, ["--kill-on-bad-exit=0", "--no-kill", "--wait=0"], command)

    def _step(self, hosts: Words, options: Words, command: Words) -> list[str]:
        where = ["--distribution=arbitrary", f"--nodelist={','.join(hosts)}"]
        count = [f"--nodes={len(set(hosts))}", f"--ntasks={len(hosts)}"]
        return [self.path, *self._mpi, *self.OPTIONS, *count, *where, *options, *command]

    def found_again(self) -> Launcher | None:
        return self if os.access(self.path, os.X_OK) else None

    @classmethod
    def words(cls, command: list[str], variables: Variables, source: Variables) -> list[str]:
        """The command with the variables in its --export."""
        words = list(command)
        for place, word in enumerate(command if Path(command[0]).name in cls.programs else ()):
            option, equals, there = word.partition("=")
            if place and command[place - 1] == "--export":
                words[place] = _exported(word, variables)
            elif option == "--export" and equals:
                words[place] = f"{option}={_exported(there, variables)}"
        return words

    @classmethod
    def told(cls, variables: Variables, libraries: Iterable[str], source: Variables) -> dict[str, str]:
        """The variables in the list of those to export, if there is one."""
        there = source.get(cls.EXPORTS)
        return {} if there is None else {cls.EXPORTS: _exported(there, variables)}


@dataclass(frozen=True)
class JobStep(Srun):
    """Starts an agent as a step of ``job``, which Slurm runs already.

    An srun that is asked to end kills its step at once, and what the agent has stopped would stay stopped.
    So it has no mark of the run, and ends when the agent does.

    Slurm lets only the user of a job create steps of it, and root no more than others. So with ``user``, the
    number of another user, srun and the agent run as that user.
    """

    has_children = False
    ends_with_run = False
    keeps = ("SLURM_CONF",)

    job: str = ""
    user: int | None = None

    @property
    def _account(self) -> pwd.struct_passwd | None:
        """The account of the job's user, if it is another one."""
        with suppress(KeyError):
            return None if self.user in (None, os.getuid()) else pwd.getpwuid(self.user)
        return None

    def argv(self, processes: int, command: Words, hosts: Words = (), options: Words = ()) -> list[str]:
        (host,) = hosts
        account = self._account
        ids = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}"] if account else []
        as_user = ["setpriv", *ids, "--init-groups", "--"] if account else []
        step = [f"--jobid={self.job}", "--job-name=lockstep", "--mpi=none", "--chdir=/"]
        where = ["--nodes=1", "--ntasks=1", f"--nodelist={host}"]
        return [*as_user, self.path, *step, *self.OPTIONS, *where, *command]

    def together(self, command: Words, hosts: Words) -> list[str]:
        return []

    def needs(self) -> dict[str, str]:
        """The number of the job, by which the agent knows its own step, and the names of another user."""
        account = self._account
        names = (
            {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name} if account else {}
        )
        return {STEP: self.job, **names}


def _runs(hosts: Sequence[str]) -> list[tuple[str, int]]:
    return [(host, len(list(ranks))) for host, ranks in itertools.groupby(hosts)]


def _exported(there: str, names: Iterable[str]) -> str:
    """The names that srun passes on, and more; ALL stands for all, and NONE or NIL for none."""
    entries = [] if there in ("NONE", "NIL") else there.split(",")
    return there if "ALL" in entries else ",".join([*entries, *names])


@register
class NoLauncher(Launcher):
    """In place of one: a program of one process starts by itself, or all jobs run already."""

    kind = "none"
    programs = ()
    has_children = False

    def __str__(self) -> str:
        return self.kind

    def argv(self, processes: int, command: Words, hosts: Words = (), options: Words = ()) -> list[str]:
        return [*command]

    def found_again(self) -> Launcher | None:
        return self


def launched(
    command: Words, variables: Variables, libraries: Iterable[str], source: Variables | None = None
) -> tuple[list[str], dict[str, str]]:
    """The words of a command, and the variables to set for it in ``source`` (default: our environment).

    All its ranks get ``variables``, on all hosts, if its launcher is the one of an MPI that has these
    ``libraries``: launchers start ranks on other hosts, and Slurm's everywhere, with an environment of
    their own making. A launcher that a script starts gets no other words. LOCKSTEP_UNDO says what was set,
    so that a Lockstep that the command starts begins as its caller did.
    """
    source = os.environ if source is None else source
    words, environment = list(command), dict(variables)
    for kind in LAUNCHERS.values():
        words = kind.words(words, variables, source)
        environment |= kind.told(variables, libraries, source)
    environment[UNDO] = json.dumps({name: [value, source.get(name)] for name, value in environment.items()})
    return words, environment


def kinds_of(word: str) -> list[type[Launcher]]:
    """The kinds of launchers that a command may name by this word, its file name."""
    name = Path(word).name
    return [
        one for one in LAUNCHERS.values() if any(re.match(rf"{pattern}\b", name) for pattern in one.programs)
    ]


def is_launcher(word: str) -> bool:
    return bool(kinds_of(word))


def program_name(command: Sequence[str]) -> str:
    """The file name of the program that a command runs, as far as one can tell."""
    behind = (word for word in command[1:] if not word.startswith("-") and shutil.which(word))
    return Path(next(behind, command[0]) if is_launcher(command[0]) else command[0]).name


def kind_at(path: str) -> type[Launcher] | None:
    """The kind of the launcher at a path, by what its file holds and needs; None if that does not tell it."""
    return _kind_of(Path(path).resolve())


@functools.cache
def _kind_of(file: Path) -> type[Launcher] | None:
    try:
        text = file.read_bytes() if file.is_file() else b""
    except OSError:
        return None
    needed = shared_libraries.needed(file)
    for kind in LAUNCHERS.values():
        by_library = kind.libraries and any(name.startswith(kind.libraries) for name in needed)
        if by_library or any(sign.encode() in text for sign in kind.signs):
            return kind
    return None


def at_path(path: str) -> Launcher | None:
    """The launcher at a path, by its answer to ``--version``; None if there is none."""
    try:
        answer = subprocess.run(
            [path, "--version"], env=forwarded({}), capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return recognize(path, answer.stdout)


def recognize(path: str, answer: str) -> Launcher | None:
    """The launcher with this answer to ``--version``; None for an unknown one."""
    lines = answer.splitlines()
    for kind in LAUNCHERS.values():
        if any(sign in line for line in lines[:2] for sign in kind.signs):
            numbered = [line for line in lines if "Version:" in line] or lines
            return kind(path, numbered[0].split()[-1])
    return None

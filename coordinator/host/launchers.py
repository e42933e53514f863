"""The launchers of MPI programs: finding one, its command line and its environment."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.host.environment import PYTHON, passed_on
from coordinator.host.launch import LaunchError, run_session
from coordinator.host.ownership import check_own
from workloads.validation import InputError

KINDS = {"mpich": ("HYDRA",), "openmpi": ("Open MPI", "OpenRTE")}
"""Kinds of launchers, and words in the first lines of their ``--version``, in every version."""

SRUN = "srun"
"""The kind that starts ranks as a step of our Slurm allocation."""

SRUN_OPTIONS = ("--overlap", "--overcommit", "--cpu-bind=none", "--mem=0", "--kill-on-bad-exit=1", "--quiet")
"""Several steps share all resources of the job on a node, and ranks bind themselves."""

SRUN_NEEDS = ("SLURM_CONF", "SLURM_JOB_ID")
"""Variables that identify the allocation; others would act as options that the user never set."""

PLUGINS = ("pmi2", "pmix")
"""Slurm's plugins in the order of trial: for MPICH and its derivatives, for Open MPI."""

TRIAL_S = 60.0

MEMORY = tuple(f"OMPI_MCA_{part}_backing_directory" for part in ("btl_sm", "btl_vader", "osc_sm", "osc_rdma"))
"""Where Open MPI's parts keep the files of shared memory: ``btl_sm`` of 5.0 was ``btl_vader`` in 4.1."""

REMEDY = "pip install 'lockstep-scheduling[mpich]'"


@dataclass(frozen=True)
class Launcher:
    """An mpiexec, or srun.

    Attributes:
        kind: a key of KINDS, or SRUN.
        path: path of the program.
        version: its version.
        plugin: Slurm's plugin through which srun and MPI communicate; empty for other kinds.
    """

    kind: str
    path: str
    version: str
    plugin: str = ""

    def __str__(self) -> str:
        plugin = f" --mpi={self.plugin}" if self.plugin else ""
        return f"{self.kind}{plugin} {self.version} ({self.path})"

    @property
    def has_children(self) -> bool:
        """Whether it starts children on its host, which live as long as its ranks do."""
        return self.kind != SRUN

    def argv(self, processes: int, command: Sequence[str], hosts: Sequence[str] = ()) -> list[str]:
        """The command line that runs ``command`` in ``processes`` processes, bound to no core.

        Ranks bind themselves; several jobs share the cores, so Open MPI must not count slots.

        Args:
            processes: number of ranks.
            command: command of each rank.
            hosts: host of each rank; empty if all run on this host.
        """
        if self.kind == SRUN:
            hosts = hosts or [os.environ.get("SLURMD_NODENAME", socket.gethostname())] * processes
            where = ["--distribution=arbitrary", f"--nodelist={','.join(hosts)}"]
            count = [f"--nodes={len(set(hosts))}", f"--ntasks={processes}"]
            return [self.path, f"--mpi={self.plugin}", *SRUN_OPTIONS, *count, *where, *command]
        runs = [(host, len(list(ranks))) for host, ranks in itertools.groupby(hosts)]
        if self.kind == "mpich":
            where = ["-hosts", ",".join(f"{host}:{count}" for host, count in runs)] if runs else []
            return [self.path, "-bind-to", "none", *where, "-n", str(processes), *command]
        argv = [self.path, "--bind-to", "none", "--oversubscribe"]
        if not runs:
            return [*argv, "-n", str(processes), *command]
        # A context for each group of ranks on one host: Open MPI would reorder a single list of hosts.
        parts = [["--host", f"{host}:{count}", "-n", str(count), *command] for host, count in runs]
        return argv + [word for part in parts for word in (":", *part)][1:]

    def environment(
        self,
        extra: Mapping[str, str],
        source: Mapping[str, str] | None = None,
        *,
        hosts: Sequence[str] = (),
        root: bool | None = None,
    ) -> dict[str, str]:
        """The environment for the launcher: ``environment.passed_on`` and the variables that its kind needs.

        ``hosts`` is as in ``argv``. Only a launcher that must use Slurm's allocation sees it.
        """
        source = os.environ if source is None else source
        inside = "SLURM_JOB_ID" in source
        needed = {}
        if self.kind == SRUN or not hosts:
            kept = SRUN_NEEDS if self.kind == SRUN else ()
            source = {name: v for name, v in source.items() if name in kept or not name.startswith("SLURM_")}
        elif inside:
            needed["SLURM_OVERLAP"] = "1"  # otherwise launches wait for each other
        if self.kind == "mpich":
            # Without a topology file from us, Hydra writes one to /tmp, whatever TMPDIR says, and
            # leaves it there when it is killed or a rank aborts. With an empty file, hwloc
            # inspects the host itself.
            needed["HWLOC_XMLFILE"] = os.devnull
        if self.kind == "openmpi":
            # With more ranks than cores Open MPI would yield while it polls: no spinning at all.
            needed["OMPI_MCA_mpi_yield_when_idle"] = "0"
            if os.getuid() == 0 if root is None else root:
                needed |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return passed_on(needed | dict(extra), source)


def memory_apart(launcher: Launcher, place: Path) -> dict[str, str]:
    """Variables for ranks on this host, so that they share memory in ``place``, a directory that this makes.

    Without them Open MPI puts its files into /dev/shm, and their names differ by 15 bits of a digest of
    the job: if these are the same, of two jobs one ends by SIGSEGV. Other MPIs need no variables.
    """
    if launcher.kind != "openmpi":
        return {}
    try:
        for folder in (place.parent, place):
            folder.mkdir(mode=0o700, exist_ok=True)
            check_own(folder)
    except OSError:  # there is no /dev/shm, for example
        return {}
    return dict.fromkeys(MEMORY, str(place))


def find_launcher(hosts: Sequence[str] = ()) -> Launcher:
    """The launcher to use: the one beside our Python before those on PATH.

    On several hosts of a Slurm allocation, it is the first of srun and these that starts ranks
    there in a trial.

    Args:
        hosts: hosts of the ranks; empty for this host alone.

    Raises:
        InputError: if there is no launcher.
    """
    if hosts and "SLURM_JOB_ID" in os.environ:
        return _tried(tuple(dict.fromkeys(hosts))[:2])
    seen = []
    for path in _candidates():
        if found := _identify(path):
            return found
        seen.append(path)
    where = f"{', '.join(seen)} is none" if seen else "there is none beside Python or on PATH"
    raise InputError("launcher", None, f"Lockstep needs an mpiexec of {' or '.join(KINDS)}; {where}", REMEDY)


@functools.cache
def _tried(hosts: tuple[str, ...]) -> Launcher:
    """The first launcher that starts ranks that know each other on these hosts of the allocation.

    Raises:
        InputError: if none does; the message holds the output of each.
    """
    srun = shutil.which("srun")
    steps = [Launcher(SRUN, srun, "of Slurm", plugin) for plugin in PLUGINS] if srun else []
    command = [*PYTHON, "-m", "mpi4py.bench", "helloworld"]
    failures = []
    for launcher in (*steps, *filter(None, map(_identify, _candidates()))):
        try:
            argv = launcher.argv(len(hosts), command, hosts)
            environment = launcher.environment({}, hosts=hosts)
            said = run_session(argv, environment, TRIAL_S, parent=launcher.has_children)
        except LaunchError as error:
            failures.append(f"{launcher}: {error}")
            continue
        if said.count(f" of {len(hosts)} ") == len(hosts):
            return launcher
        failures.append(f"{launcher}: its ranks do not know each other: {said!r}")
    rule = "no launcher starts ranks on " + ", ".join(hosts) + ":\n" + "\n".join(failures)
    raise InputError("launcher", None, rule, "use an MPI that was built for this cluster's Slurm")


def launcher_at(name: str) -> Launcher:
    """The launcher at a path, or the first of that name on PATH.

    Raises:
        InputError: if there is none, or its kind is unknown.
    """
    path = shutil.which(name)
    found = _identify(path) if path else None
    if found is None:
        what = f"{path} is none" if path else "there is no such program"
        rule = f"must be an mpiexec of {' or '.join(KINDS)}; {what}"
        raise InputError("launcher", name, rule, 'check the path, or write "{launcher}" for the default one')
    return found


def _candidates() -> Iterator[str]:
    places = [Path(sys.executable).parent / program for program in ("mpiexec", "mpirun")]
    paths = [str(place) for place in places if os.access(place, os.X_OK)]
    paths += filter(None, map(shutil.which, ("mpiexec", "mpirun")))
    yield from dict.fromkeys(paths)


def _identify(path: str) -> Launcher | None:
    try:
        answer = subprocess.run(
            [path, "--version"], env=passed_on({}), capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return recognize(path, answer.stdout)


def unchanged(launcher: Launcher) -> Launcher:
    """``launcher``, if it is still there unchanged: one MPI serves a series of runs.

    Raises:
        LaunchError: if it has gone, or another one is in its place.
    """
    if launcher.kind == SRUN:
        found = launcher if os.access(launcher.path, os.X_OK) else None
    else:
        found = _identify(launcher.path)
    if found != launcher:
        what = f"it is {found} now" if found else "it has gone, or does not answer"
        raise LaunchError(
            f"this series of runs began with the launcher {launcher}, but {what}: "
            "restore the launcher and continue with --resume, or choose another --results"
        )
    return launcher


def recognize(path: str, answer: str) -> Launcher | None:
    """The launcher with this answer to ``--version``; None for an unknown one."""
    lines = answer.splitlines()
    for kind, signs in KINDS.items():
        if any(sign in line for line in lines[:2] for sign in signs):
            numbered = [line for line in lines if "Version:" in line] or lines
            return Launcher(kind, path, numbered[0].split()[-1])
    return None

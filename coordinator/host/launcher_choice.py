"""Which launcher starts the ranks of a run: the one that is named, or the first that serves."""

import functools
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from coordinator.host.environment import PYTHON
from coordinator.host.launch import LaunchError, run_session
from coordinator.host.launchers import LAUNCHERS, Launcher, NoLauncher, Srun, at_path
from workloads.validation import InputError

TRIAL_S = 60.0

REMEDY = "pip install 'lockstep-scheduling[mpich]'"


def find_launcher(hosts: Sequence[str] = (), *, needed: bool = True) -> Launcher:
    """The launcher to use: the one in the directory of our Python before those on PATH.

    On several hosts of a Slurm allocation, it is the first of srun and these that starts ranks there in a
    trial. If there is none and none is ``needed``, it is a NoLauncher.
    """
    if hosts and "SLURM_JOB_ID" in os.environ:
        return _tried(tuple(dict.fromkeys(hosts))[:2])
    if launcher := next(launchers(), None):
        return launcher
    if not needed:
        return NoLauncher("", "")
    names = [*candidates()]
    where = f"{', '.join(names)} is none" if names else "there is none beside Python or on PATH"
    raise InputError("launcher", None, f"Lockstep needs an mpiexec of {_known()}; {where}", REMEDY)


@functools.cache
def _tried(hosts: tuple[str, ...]) -> Launcher:
    """The first launcher that starts ranks that know each other on these hosts of the allocation."""
    srun = shutil.which("srun")
    plugins = dict.fromkeys(filter(None, (kind.srun_plugin for kind in LAUNCHERS.values())))
    steps = [Srun(srun, "of Slurm", plugin) for plugin in plugins] if srun else []
    command = [*PYTHON, "-m", "mpi4py.bench", "helloworld"]
    failures = []
    for launcher in (*steps, *launchers()):
        try:
            argv = launcher.argv(len(hosts), command, hosts)
            environment = launcher.environment({}, hosts=hosts)
            output = run_session(argv, environment, TRIAL_S, parent=launcher.has_children)
        except LaunchError as error:
            failures.append(f"{launcher}: {error}")
            continue
        if output.count(f" of {len(hosts)} ") == len(hosts):
            return launcher
        failures.append(f"{launcher}: its ranks do not know each other: {output!r}")
    rule = "no launcher starts ranks there:\n" + "\n".join(failures)
    raise InputError("hosts", list(hosts), rule, "use an MPI that was built for this cluster's Slurm")


def launcher_at(name: str) -> Launcher:
    """The launcher at a path, or the first of that name on PATH."""
    path = shutil.which(name)
    launcher = at_path(path) if path else None
    if launcher is None:
        what = f"{path} is none" if path else "the program was not found, or is not executable"
        rule = f"must be srun or an mpiexec of {_known()}; {what}"
        raise InputError("launcher", name, rule, 'check the path, or write "{launcher}" for the default one')
    if launcher.kind == Srun.kind and "SLURM_JOB_ID" not in os.environ:
        rule = "starts processes in an allocation of Slurm, and this process is in none"
        raise InputError("launcher", name, rule, "run this by salloc, sbatch or lockstep submit")
    return launcher


def launchers() -> Iterator[Launcher]:
    yield from filter(None, map(at_path, candidates()))


def candidates() -> Iterator[str]:
    programs = dict.fromkeys(name for kind in _of_mpi() for name in kind.programs)
    places = [Path(sys.executable).parent / program for program in programs]
    paths = [str(place) for place in places if os.access(place, os.X_OK)]
    paths += filter(None, map(shutil.which, programs))
    yield from dict.fromkeys(paths)


def _of_mpi() -> list[type[Launcher]]:
    return [kind for kind in LAUNCHERS.values() if kind.signs and kind is not Srun]


def _known() -> str:
    return " or ".join(kind.kind for kind in _of_mpi())


def unchanged(launcher: Launcher) -> Launcher:
    """``launcher``, if it is still there unchanged: one MPI serves a series of runs."""
    again = launcher.found_again()
    if again != launcher:
        what = f"it is {again} now" if again else "it has gone, or does not answer"
        raise LaunchError(
            f"this series of runs began with the launcher {launcher}, but {what}: "
            "restore the launcher and continue with --resume, or choose another --results"
        )
    return launcher

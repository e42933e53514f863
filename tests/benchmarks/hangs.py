"""Which hangs ``lockstep exec --stuck`` recognises, with each MPI that is here.

    python -P tests/benchmarks/hangs.py [--mpi mpiexec] [--mpi mpirun.openmpi] [--rounds 3] [--hosts 2]

Lets four ranks of ``tests/support/native/hangs.c`` hang in each way, those of ``hangs.f90`` and ``hangs.py``
in some, and compares what is said of them with the right verdict. ``--mpi`` names a launcher of an MPI, whose
compiler wrapper lies next to it; without one, the usual names are tried. With ``--hosts 2`` the ranks are on
two emulated hosts, and ``exec`` on a third. Prints a row for each kind of hang:
right, "no conclusion", wrong or not reported; and how long after the time of ``--stuck`` it was reported,
and the command had ended. Exits with 1 if any verdict is wrong.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import PROGRAMS, compiled, headed, parsed, tabled
from hangs import LANGUAGES, RANKS, hang, started
from netns_cluster import cluster

from coordinator.host.launcher_choice import launcher_at
from workloads import native

USUAL = ("mpiexec", "mpiexec.mpich", "mpirun.openmpi")
"""MPICH of the Python package and of Debian, and Debian's Open MPI."""

UNBOUND = {"mpich": (), "openmpi": ("--oversubscribe", "--bind-to", "none")}
"""MPICH binds no rank, and cannot spawn with ``-bind-to``."""

FLAGS = {"hangs.c": ("mpicc", "-pthread"), "hangs.f90": ("mpifort",)}


def program(launcher, folder, source):
    """The words that run one of the programs with a launcher's MPI; None if they cannot be had."""
    if source.endswith(".py"):
        (library,) = native.library(native.wrapper([launcher])).libraries
        if library.name.startswith("libmpich"):  # Debian's; mpi4py's wheels ask for the usual name
            (folder / "libmpi.so.12").symlink_to(library)
        variables = [f"MPI4PY_LIBMPI={library}", f"LD_LIBRARY_PATH={folder}"]
        return ["env", *variables, sys.executable, PROGRAMS / source]
    try:
        return [compiled(launcher, folder, source, *FLAGS[source])]
    except (OSError, subprocess.CalledProcessError):  # there may be no Fortran
        return None


@contextmanager
def places(hosts, launcher):
    """How a command starts, and the words by which its launcher spreads ranks over so many emulated hosts."""
    kind = launcher_at(launcher).kind
    if hosts == 1:
        yield started, UNBOUND[kind]
        return
    with cluster(hosts) as emulated:
        shell = str(emulated.root / "ssh")
        emulated.environment |= {"OMPI_MCA_plm_rsh_agent": shell, "PRTE_MCA_plm_ssh_agent": shell}
        emulated.environment |= {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}
        each = RANKS // hosts
        if kind == "openmpi":
            where = ["--host", ",".join(f"{host}:{each}" for host in emulated.hosts)]
        else:
            where = ["-ppn", str(each), "-hosts", ",".join(emulated.hosts)]
        yield emulated.start, (*UNBOUND[kind], *where)


def version(launcher):
    known = launcher_at(launcher)
    return f"{known.kind} {known.version}"


def cell(ones):
    """What the rounds of a hang have shown."""
    told = ", ".join(sorted({one.judgement for one in ones}))
    late = [(one.reported_s, one.ended_s) for one in ones if one.reported_s is not None]
    return f"{told}, {max(late)[0]:.1f}, {max(late)[1]:.1f}" if late else f"{told}, -, -"


def main():
    mpis = {"action": "append", "metavar": "LAUNCHER"}
    kinds = {"action": "append", "metavar": "KIND", "help": "only these kinds of hangs"}
    options = parsed(__doc__, mpi=mpis, kind=kinds, seconds=3, rounds=1, hosts=1)
    launchers = options.mpi or [name for name in USUAL if shutil.which(name)]
    os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    counts = Counter[str]()
    headed("hang", *(f"{version(launcher)}: verdict, reported s, ended s" for launcher in launchers))
    with tempfile.TemporaryDirectory() as name:
        folders = {launcher: Path(name, str(number)) for number, launcher in enumerate(launchers)}
        for folder in folders.values():
            folder.mkdir()
        for source, all_kinds in LANGUAGES.items():
            words = {launcher: program(launcher, folder, source) for launcher, folder in folders.items()}
            for kind in [one for one in all_kinds if not options.kind or one in options.kind]:
                cells = []
                for launcher, folder in folders.items():
                    if words[launcher] is None:
                        cells.append("-")
                        continue
                    ones = []
                    for _ in range(options.rounds):
                        with places(options.hosts, launcher) as (start, where):
                            command = [launcher, *where, "-n", str(RANKS), *map(str, words[launcher])]
                            ones.append(hang(kind, command, folder, options.seconds, start=start))
                    counts.update(one.judgement.partition(":")[0] for one in ones)
                    cells.append(cell(ones))
                tabled(f"{kind} ({source})", *cells)
    print(", ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items())))
    raise SystemExit("wrong" in counts)


if __name__ == "__main__":
    main()

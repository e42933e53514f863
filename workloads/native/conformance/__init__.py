"""Whether the nonblocking forms of an MPI's calls do what the blocking ones do.

Two-phase waits replace blocking calls by their nonblocking forms. MPIs have faults in
these: ``FAULTS`` says which, for the MPIs that we know, and a program in C finds out for others.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
IN_PLACE = "Alltoallv:in-place Alltoallw:in-place Reduce_scatter:in-place"
FAULTS = {
    "MPICH 4.0": "Neighbor_alltoallw",
    "MPICH 4.1": "",
    "MPICH 4.2": "",
    "MPICH 4.3": "",
    "MPICH 5.0": "",
    "Open MPI 4.1": f"{IN_PLACE} Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw",
    "Open MPI 5.0": f"{IN_PLACE} Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw",
}
"""The calls of an MPI whose nonblocking forms differ, some only in place, as the program has found."""

SEED = 1
CASES = 40
RANKS = 2
CALL_S, ALL_S = 5, 30
"""The trial of an unknown MPI, and how long a call and all may take."""

FREE_OF_OTHERS = {
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
"""With these, ranks that wait yield their processor, wherever their launcher starts them."""

OURS = re.compile(r"LD_PRELOAD$|LD_AUDIT$|LOCKSTEP_|(PMI|PMIX|OMPI_COMM|SLURM)_")
"""Variables that would bring the library in, or make the job part of another."""

FAMILIES = {"MPICH": ("MPICH_VERSION",), "Open MPI": ("OMPI_MAJOR_VERSION", "OMPI_MINOR_VERSION")}
"""Macros that hold a family's version."""

PARTS = ("MPI_", "MPICH_", "ROMIO_", "OMPI_", "OPAL_", "PLATFORM_")
"""Beginnings of other versions in their headers. One more belongs to another MPI that was made of it."""


@dataclass(frozen=True)
class Conformity:
    """The outcome for a call."""

    # "same", "differs", or the form in which a case did not end or ended the job: "blocking" or "tested".
    verdict: str
    case: str = ""  # the case, in words
    digest: str = ""  # of what the blocking form has left, if all cases were tried


def identity(macros: str) -> str | None:
    """The family and version of an MPI, by the macros of its header; None if it is unknown here."""
    versions = _versions(macros)
    if any(not name.startswith(PARTS) for name in versions):
        return None
    for family, parts in FAMILIES.items():
        if all(part in versions for part in parts):
            numbers = ".".join(versions[part] for part in parts).split(".")
            name = f"{family} {'.'.join(numbers[:2])}"
            return name if name in FAULTS else None
    return None


def _versions(macros: str) -> dict[str, str]:
    return dict(re.findall(r'(?m)^#define ([A-Z]\w*VERSION) "?([\w.]*)', macros))


def compiling(mpicc: Path, program: Path) -> list[str]:
    return [str(mpicc), "-O1", "-std=gnu11", "-o", str(program), *map(str, HERE.glob("*.c"))]


def launcher_beside(mpicc: Path) -> Path | None:
    """The launcher of a wrapper's MPI, if it is in the same directory."""
    name = mpicc.name.replace("mpicc_abi", "mpicc").replace("mpicc", "mpiexec")
    beside = mpicc.with_name(name)
    return beside if "mpicc" in mpicc.name and beside.exists() else None


def differing(outcomes: dict[str, Conformity]) -> set[str]:
    """The calls whose nonblocking form does something else."""
    return {
        call.removesuffix(":4") for call, found in outcomes.items() if found.verdict in ("differs", "tested")
    }


def of_family(macros: str) -> set[str]:
    """The faults to expect of an unknown MPI, since some are rare: all known faults of its family."""
    versions = _versions(macros)
    families = [family for family, parts in FAMILIES.items() if parts[0] in versions] or list(FAMILIES)
    return {call for name, calls in FAULTS.items() for call in calls.split() if name[:-4] in families}


def tried(
    program: Path,
    launcher: Sequence[str],
    *,
    seed: int = SEED,
    cases: int = CASES,
    call_s: int = CALL_S,
    all_s: float = ALL_S,
) -> dict[str, Conformity]:
    """Try all calls; empty if the program does not run.

    A call that ends the job is left out when the others are tried again. Of calls that were not tried in
    ``all_s`` there is nothing.
    """
    outcomes: dict[str, Conformity] = {}
    left: list[str] = []  # all, at first
    environment = {name: v for name, v in os.environ.items() if not OURS.match(name)} | FREE_OF_OTHERS
    while True:
        command = [*launcher, str(program), str(seed), str(cases), str(call_s), *left]
        output = _output(command, environment, all_s)
        begun = _read(output, outcomes)
        known = left or re.findall(r"(?m)^call (\S+)$", output)
        left = [name for name in known if name not in outcomes]
        if begun is None or not left:
            return outcomes


def _output(command: Sequence[str], environment: dict[str, str], limit_s: float) -> str:
    with suppress(OSError):
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return (error.stdout or b"").decode(errors="replace")
        return done.stdout.decode(errors="replace")
    return ""


def _read(output: str, outcomes: dict[str, Conformity]) -> str | None:
    """Add what a job has found out; returns the call in which it ended early."""
    begun = ""
    form = ""
    cases: dict[tuple[str, str], str] = {}
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        name, _, more = rest.partition(" ")
        if word == "begin":
            begun = rest
            form = "blocking"
        elif word == "own":
            form = "tested"
        elif word in ("differs", "fails", "hangs"):
            cases.setdefault((word, name.rstrip(":")), more)
        elif word == "end":
            case = cases.get(("differs", name), "")
            outcomes[name] = Conformity("differs" if case else "same", case, more)
            begun = ""
    if not begun:
        return None
    ends = [f"{word}: {case}" for (word, name), case in cases.items() if name == begun and word != "differs"]
    outcomes[begun] = Conformity(form, *ends[:1])
    return begun

"""Settings of MPI, OpenMP and OpenBLAS that limit spinning, and which of them loaded libraries support.

Settings come and go with versions of a library, and one that it does not know is ignored in silence. So
a library is looked through for the names: it must hold them to read them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class LibrarySetting:
    """A setting of a library of FAMILIES, or several that belong together: variables of the environment.

    ``versions`` are the versions of that library that have it, as far as they were looked at; ``signs`` are
    texts that a library holds if it knows the setting, by default the variables. ``crowded``: it is for
    programs with more threads than processors; FITS in it stands for the number of threads that fit.
    """

    name: str
    library: str
    versions: str
    variables: Mapping[str, str]
    signs: tuple[str, ...] = ()
    crowded: bool = False

    @property
    def of_mpi(self) -> bool:
        return self.library in FAMILIES[MPI]

    def line(self) -> str:
        return "export " + " ".join(f"{name}={value}" for name, value in self.variables.items())

    def words(self) -> str:
        """How to give a setting of an MPI on the launcher's command line."""
        if self.library == OPEN_MPI:
            pairs = [(name.removeprefix(MCA), value) for name, value in self.variables.items()]
            return " ".join(f"--mca {name} {value}" for name, value in pairs)
        return " ".join(f"-genv {name} {value}" for name, value in self.variables.items())


OPEN_MPI = "Open MPI"
INTEL_MPI = "Intel MPI"
MPICH = "MPICH"
OPENMP = "OpenMP"
OPENBLAS = "OpenBLAS"
MKL = "MKL"
MPI = "lib(mpi|open-)"
FAMILIES = {
    MPI: {OPEN_MPI: "ompi_mpi_init", INTEL_MPI: "I_MPI_WAIT_MODE", MPICH: "MPIR_CVAR_"},
    "lib(gomp|i?omp)": {OPENMP: "OMP_NUM_THREADS"},
    "lib(scipy_)?(open)?blas": {OPENBLAS: "OPENBLAS_NUM_THREADS"},
    "libmkl_(core|rt)": {MKL: "MKL_NUM_THREADS"},
}
"""By the beginning of their files' names, libraries with a text that each holds; the first that fits counts,
since Intel's MPI is an MPICH as well."""

MCA = "OMPI_MCA_"

_YIELDS = {f"{MCA}mpi_yield_when_idle": "1"}
_HEAVY = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
_THROTTLE = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1"}
_OFTEN = _THROTTLE | {"MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "64"}

FITS = "{fits}"
ANY = "GNU, LLVM, Intel"
_SHORT = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}  # of the GNU library, and of the others, in ms

LIBRARY_SETTINGS = (
    LibrarySetting("yield when idle", OPEN_MPI, "4.1, 5.0", _YIELDS, ("yield_when_idle",)),
    LibrarySetting(
        "nanosleep when idle",
        OPEN_MPI,
        "5.0",
        _YIELDS | {f"{MCA}threads_pthreads_yield_strategy": "nanosleep"},
        ("yield_when_idle", "yield_strategy", "nanosleep_time"),
    ),
    LibrarySetting("yield at each poll", MPICH, "4.0 to 5.0", {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}),
    LibrarySetting("heavy yield", MPICH, "4.1 to 5.0", _HEAVY),
    LibrarySetting("progress throttle", MPICH, "5.0", _THROTTLE),
    LibrarySetting("progress throttle, often", MPICH, "5.0", _OFTEN),
    LibrarySetting("progress throttle, often, heavy yield", MPICH, "5.0", _OFTEN | _HEAVY),
    LibrarySetting("wait mode", INTEL_MPI, "2021", {"I_MPI_WAIT_MODE": "1"}),
    LibrarySetting("thread yield", INTEL_MPI, "2021", {"I_MPI_THREAD_YIELD": "2"}),
    LibrarySetting(
        "thread sleep", INTEL_MPI, "2021", {"I_MPI_THREAD_YIELD": "3", "I_MPI_THREAD_SLEEP": "10"}
    ),
    LibrarySetting("passive threads", OPENMP, ANY, {"OMP_WAIT_POLICY": "passive"}),
    LibrarySetting("short spin of threads", OPENMP, ANY, _SHORT, ("OMP_WAIT_POLICY",)),
    LibrarySetting("dynamic threads", OPENMP, ANY, {"OMP_DYNAMIC": "true"}, crowded=True),
    LibrarySetting("fewer threads", OPENMP, ANY, {"OMP_NUM_THREADS": FITS}, crowded=True),
    LibrarySetting("short spin of BLAS", OPENBLAS, "0.3", {"OPENBLAS_THREAD_TIMEOUT": "17"}),
    LibrarySetting("fewer BLAS threads", OPENBLAS, "0.3", {"OPENBLAS_NUM_THREADS": FITS}, crowded=True),
)
"""Names that the libraries of MPICH 4.0.3, 4.1.3, 4.2.3, 4.3.2, 5.0.0 and 5.0.2, Open MPI 4.1.4, 4.1.8 and
5.0.11, and Intel MPI 2021.19 hold. The throttle sleeps after that many empty polls (by default 4096)."""


THREADS = {
    OPENMP: ("OMP_NUM_THREADS",),
    OPENBLAS: ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"),
    MKL: ("MKL_NUM_THREADS", "OMP_NUM_THREADS"),
}
"""Of the libraries with threads, the variables with their number: the first one that is set counts."""


def family_of(library: Path) -> str:
    """The library of FAMILIES to which a file belongs; empty if it belongs to none, or cannot be read."""
    for files, families in FAMILIES.items():
        if re.match(files, library.name):
            try:
                held = library.read_bytes()
            except OSError:
                return ""
            return next((name for name, sign in families.items() if sign.encode() in held), "")
    return ""


def offered(
    libraries: Mapping[Path, int], room: int = 1, threads: int = 1
) -> tuple[list[LibrarySetting], list[LibrarySetting]]:
    """The settings of the libraries that programs load: what they hold, and what they lack.

    Args:
        libraries: how many processes load each at a time, with all parts of a library.
        room: how many processors there are for all these processes.
        threads: how many threads each makes.
    """
    there = list[LibrarySetting]()
    missing = list[LibrarySetting]()
    for files, families in FAMILIES.items():
        parts = [path for path in libraries if re.match(files, path.name)]
        held = b"\0".join(path.read_bytes() for path in parts)
        family = next((name for name, sign in families.items() if sign.encode() in held), "")
        fits = max(1, room // max((libraries[path] for path in parts), default=1))
        for setting in LIBRARY_SETTINGS:
            if setting.library == family and (fits < threads or not setting.crowded):
                known = all(sign.encode() in held for sign in setting.signs or setting.variables)
                variables = {key: value.replace(FITS, str(fits)) for key, value in setting.variables.items()}
                (there if known else missing).append(replace(setting, variables=variables))
    return there, missing

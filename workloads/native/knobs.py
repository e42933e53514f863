"""MPI settings that limit spinning, and which of them the loaded library supports.

Settings come and go with versions of an MPI, and one that it does not know is ignored in silence. So
a library is looked through for the names: it must hold them to read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Knob:
    """A setting of an MPI of FAMILIES, or several that belong together: variables of the environment.

    ``versions`` are the versions of that MPI that have it, as far as they were looked at; ``signs`` are texts
    that a library holds if it knows the setting.
    """

    name: str
    mpi: str
    versions: str
    variables: Mapping[str, str]
    signs: tuple[str, ...]

    def line(self) -> str:
        return "export " + " ".join(f"{name}={value}" for name, value in self.variables.items())

    def words(self) -> str:
        """How to set it on the launcher's command line."""
        if self.mpi == OPEN_MPI:
            pairs = [(name.removeprefix(MCA), value) for name, value in self.variables.items()]
            return " ".join(f"--mca {name} {value}" for name, value in pairs)
        return " ".join(f"-genv {name} {value}" for name, value in self.variables.items())


OPEN_MPI, INTEL_MPI, MPICH = "Open MPI", "Intel MPI", "MPICH"
FAMILIES = {OPEN_MPI: "ompi_mpi_init", INTEL_MPI: "I_MPI_WAIT_MODE", MPICH: "MPIR_CVAR_"}
"""Each MPI with a text in its library; the first that fits counts, since Intel's is an MPICH as well."""

MCA = "OMPI_MCA_"

_YIELDS = {f"{MCA}mpi_yield_when_idle": "1"}
_HEAVY = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
_THROTTLE = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1"}
_OFTEN = _THROTTLE | {"MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "64"}


def _mpich(name: str, versions: str, variables: Mapping[str, str]) -> Knob:
    return Knob(name, MPICH, versions, variables, tuple(variables))


def _intel(name: str, variables: Mapping[str, str]) -> Knob:
    return Knob(name, INTEL_MPI, "2021", variables, tuple(variables))


KNOBS = (
    Knob("yield when idle", OPEN_MPI, "4.1, 5.0", _YIELDS, ("yield_when_idle",)),
    Knob(
        "nanosleep when idle",
        OPEN_MPI,
        "5.0",
        _YIELDS | {f"{MCA}threads_pthreads_yield_strategy": "nanosleep"},
        ("yield_when_idle", "yield_strategy", "nanosleep_time"),
    ),
    _mpich("yield at each poll", "4.0 to 5.0", {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}),
    _mpich("heavy yield", "4.1 to 5.0", _HEAVY),
    _mpich("progress throttle", "5.0", _THROTTLE),
    _mpich("progress throttle, often", "5.0", _OFTEN),
    _mpich("progress throttle, often, heavy yield", "5.0", _OFTEN | _HEAVY),
    _intel("wait mode", {"I_MPI_WAIT_MODE": "1"}),
    _intel("thread yield", {"I_MPI_THREAD_YIELD": "2"}),
    _intel("thread sleep", {"I_MPI_THREAD_YIELD": "3", "I_MPI_THREAD_SLEEP": "10"}),
)
"""Names that the libraries of MPICH 4.0.3, 4.1.3, 4.2.3, 4.3.2, 5.0.0 and 5.0.2, Open MPI 4.1.4, 4.1.8 and
5.0.11, and Intel MPI 2021.19 hold. The throttle sleeps after so many polls in vain (by default 4096)."""


def offered(libraries: Sequence[Path]) -> tuple[list[Knob], list[Knob]]:
    """The knobs of the MPI of these libraries, in parts if it has any: what they hold, and what they lack."""
    held = b"\0".join(path.read_bytes() for path in libraries)
    family = next((mpi for mpi, sign in FAMILIES.items() if sign.encode() in held), "")
    ours = [knob for knob in KNOBS if knob.mpi == family]
    there = [knob for knob in ours if all(sign.encode() in held for sign in knob.signs)]
    return there, [knob for knob in ours if knob not in there]

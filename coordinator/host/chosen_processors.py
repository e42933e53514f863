"""Whether the words of a command choose processors for its ranks: a binding to those is a user's wish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from coordinator.host.environment import Variables
from coordinator.host.named_hosts import launcher_words, options_of, parts

TOOLS = ("taskset", "numactl", "likwid-pin", "likwid-mpirun", "hwloc-bind", "dplace", "omplace", "schedtool")
"""Programs that bind the command behind them."""

LISTS = ("cpu-set", "cpu-list", "slot-list", "rankfile", "rf")
"""Options of launchers, without hyphens, whose value names processors, or a file that does."""

BINDING = ("bind-to", "binding", "map-by", "cpu-bind", "cpu_bind")
"""Options that bind. Only a value with a word of NAMING has processors; others have a kind, such as core."""

NAMING = ("user:", "cpu-list", "cpuset", "pe-list", "map_", "mask_", "rank_ldom", "rankfile:")

VARIABLES = (
    *("OMPI_MCA_hwloc_base_cpu_set", "OMPI_MCA_hwloc_base_slot_list", "OMPI_MCA_orte_rankfile"),
    *("OMPI_MCA_rmaps_rank_file_path", "PRTE_MCA_hwloc_default_cpu_list", "I_MPI_PIN_PROCESSOR_LIST"),
    *("MV2_CPU_MAPPING", "MPIEXEC_CPU_BIND"),
)
"""Variables of launchers that name processors."""

PARAMETERS = {name.partition("_MCA_")[2] for name in VARIABLES if "_MCA_" in name}
"""The same as parameters of Open MPI."""

PARAMETER_OPTIONS = ("mca", "gmca", "omca", "prtemca")
VARIABLE_OPTIONS = ("genv", "env", "x")
"""Options with a parameter, or a variable, and its value."""


def chosen_by(command: Sequence[str], variables: Variables) -> str:
    """The word or variable that chooses processors; empty if a launcher chooses by itself."""
    return next(_signs(command, variables), "")


def _signs(command: Sequence[str], variables: Variables) -> Iterator[str]:
    yield from (part for word in command for part in parts(word) if Path(part).name in TOOLS)
    for option, value in options_of(launcher_words(command)):
        if option in LISTS:
            yield f"--{option}"
        if option in BINDING and any(sign in value.lower() for sign in NAMING):
            yield f"--{option} {value}"
        name = value.partition("=")[0]
        if (option in PARAMETER_OPTIONS and name in PARAMETERS) or (
            option in VARIABLE_OPTIONS and name in VARIABLES
        ):
            yield f"--{option} {name}"
    yield from (name for name in VARIABLES if variables.get(name))

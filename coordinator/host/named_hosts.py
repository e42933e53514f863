"""Whether ranks of a command may start on other hosts: it, a host file or an allocation then names some."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from coordinator.host.environment import Variables
from coordinator.host.launchers import is_launcher

NAMING = {"hosts", "host", "H", "w", "nodelist"}
"""Options of launchers, without hyphens, with names of hosts behind them."""

FILES = {"f", "hostfile", "machinefile", "default-hostfile", "F", "nodefile", "rankfile", "rf"}
"""Those with a file behind them that has a host on each line."""

FILES_IN_VARIABLES = (
    *("HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile"),
    *("PRTE_MCA_prte_default_hostfile", "PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE"),
    *("OAR_NODEFILE", "COBALT_NODEFILE"),
)
"""Variables that name such a file: of launchers, and of batch systems for an allocation."""

FILE_OF_SITE = "/etc/openmpi/openmpi-default-hostfile"

NODES_OF_SLURM = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")


def elsewhere(commands: Iterable[Sequence[str]], variables: Variables) -> bool:
    """Whether ranks of these commands, with these environment variables, may start on another host.

    Scripts are not read: a launcher in one names hosts that are not seen here.
    """
    return any(True for _ in of_others(commands, variables))


def of_others(commands: Iterable[Sequence[str]], variables: Variables) -> Iterator[str]:
    """What names other hosts: words of these commands, variables, and the file of the site."""
    yield from (name for name in NODES_OF_SLURM if variables.get(name, "1") != "1")
    if not all(map(_is_here, variables.get("LSB_HOSTS", "").split())):
        yield "LSB_HOSTS"
    for name in FILES_IN_VARIABLES:
        if variables.get(name) and _names_others(variables[name]):
            yield f"{name}={variables[name]}"
    for command in commands:
        for option, value in options_of(launcher_words(command)):
            named = option in NAMING and not all(map(_is_here, value.split(",")))
            if named or (option in FILES and _names_others(value)):
                yield f"--{option} {value}"
    if _names_others(FILE_OF_SITE):
        yield FILE_OF_SITE


def launcher_words(command: Sequence[str]) -> Iterator[str]:
    """The words of a command from its first launcher on, also of one that a shell gets as one word."""
    words = [part for word in command for part in parts(word)]
    place = next((place for place, word in enumerate(words) if is_launcher(word)), len(words))
    yield from words[place:]


def parts(word: str) -> list[str]:
    """The words of a word that a shell may get as a command."""
    try:
        return shlex.split(word)
    except ValueError:  # a quotation is not closed
        return word.split()


def options_of(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Options without hyphens, each with what stands behind it."""
    option = ""
    for word in words:
        if option:
            yield option, word
        option, equals, value = word.lstrip("-").partition("=") if word.startswith("-") else ("", "", "")
        if equals:
            yield option, value
            option = ""


def _names_others(file: str) -> bool:
    if not Path(file).is_file():  # what is read from a pipe would be lost to the launcher
        return Path(file).is_fifo()
    try:
        lines = Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return False
    named = (re.split(r"[\s:#]", line.strip(), maxsplit=1)[0] for line in lines)
    return not all(_is_here(name) for name in named if name)


def _is_here(name: str) -> bool:
    host = re.split("[:*]", name, maxsplit=1)[0]
    own = socket.gethostname()
    return host in ("", "localhost", own, own.partition(".")[0]) or host.startswith("127.")

"""What a command gets so that all its ranks load a library: on all hosts, once, and not for good.

A launcher starts ranks on other hosts, and Slurm's everywhere, with an environment of its own making. What
each kind takes to pass variables on is data here. LOCKSTEP_UNDO says what was set, so that a Lockstep that
the command starts begins as its caller did.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

UNDO = "LOCKSTEP_UNDO"

LISTS = {
    "libopen-rte": "OMPI_MCA_mca_base_env_list_internal",
    "libopen-pal": "OMPI_MCA_mca_base_env_list",
}
"""Open MPI up to 4, then 5, by a library that it has: the variable that lists variables to pass on.

Open MPI 4 refuses the second one beside ``-x``, and Open MPI 5 does not know the first.
"""

HYDRA_LEAVES_OUT = {"-genvnone", "-genvlist", "-envnone", "-envlist"}
"""Options of MPICH's launcher, which passes on everything without them and HYDRA_ENV."""

SRUN_EXPORTS = "SLURM_EXPORT_ENV"
"""Stands for srun's --export; srun passes on everything without them."""


def launched(
    command: Sequence[str],
    variables: Mapping[str, str],
    libraries: Iterable[str],
    source: Mapping[str, str] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """The words of a command, and what to set for it in ``source`` (default: our environment).

    All its ranks get ``variables``, on all hosts, if its launcher is the one of an MPI that has
    these ``libraries``. A launcher that a script starts gets no other words.
    """
    source = os.environ if source is None else source
    told = {**variables, **_lists(variables, libraries, source), **_exports(variables, source)}
    before = {name: [value, source.get(name)] for name, value in told.items()}
    told[UNDO] = json.dumps(before)
    return _words(list(command), variables, source), told


def undone(source: Mapping[str, str]) -> dict[str, str]:
    """An environment without what ``launched`` has set in it; what others have added since is kept."""
    found = dict(source)
    try:
        set_before = dict(json.loads(found.pop(UNDO, "{}")))
        for name, (ours, before) in set_before.items():
            left = before if found.get(name) == ours else _without(found.get(name), ours, before)
            found.pop(name, None)
            if left is not None:
                found[name] = str(left)
    except (ValueError, TypeError):  # it is not ours
        pass
    return found


def _without(now: str | None, ours: str, before: str | None) -> str | None:
    """A list in a variable without the words that are ours alone."""
    if now is None:
        return None
    word = r"[^\s:;,]+"
    alone = set(re.findall(word, ours)) - set(re.findall(word, before or ""))
    return re.sub(rf"{word}[\s:;,]*", lambda found: "" if found[0].rstrip(" :;,") in alone else found[0], now)


def _lists(
    variables: Mapping[str, str], libraries: Iterable[str], source: Mapping[str, str]
) -> dict[str, str]:
    """Open MPI's list. A name stands for the value at the launch: what a script adds to it counts."""
    known = next((LISTS[sign] for sign in LISTS for name in libraries if name.startswith(sign)), None)
    if known is None:
        return {}
    # The launcher reads a value with "=" that it looks up itself as a name and a value.
    words = [f"{name}={value}" if "=" in value else name for name, value in variables.items()]
    return {known: ";".join(filter(None, [source.get(known), *words]))}


def _exports(variables: Mapping[str, str], source: Mapping[str, str]) -> dict[str, str]:
    there = source.get(SRUN_EXPORTS)
    return {} if there is None else {SRUN_EXPORTS: _exported(there, variables)}


def _exported(there: str, names: Iterable[str]) -> str:
    """The names that srun passes on, and more; ALL stands for all, and NONE or NIL for none."""
    kept = [] if there in ("NONE", "NIL") else there.split(",")
    return there if "ALL" in kept else ",".join([*kept, *names])


def _words(command: list[str], variables: Mapping[str, str], source: Mapping[str, str]) -> list[str]:
    program = Path(command[0]).name
    if program == "srun":
        return _words_of_srun(command, variables)
    if HYDRA_LEAVES_OUT & set(command) or (program.startswith("mpi") and "HYDRA_ENV" in source):
        given = [word for name, value in variables.items() for word in ("-genv", name, value)]
        return [command[0], *given, *command[1:]]
    return command


def _words_of_srun(command: list[str], variables: Mapping[str, str]) -> list[str]:
    words = []
    for before, word in zip(["", *command], command, strict=False):
        option, equals, there = word.partition("=")
        if before == "--export":
            words.append(_exported(word, variables))
        elif option == "--export" and equals:
            words.append(f"{option}={_exported(there, variables)}")
        else:
            words.append(word)
    return words

"""The environment of the processes of a run.

Our programs get an allow-list of variables, because a forgotten variable of a shell can change a measurement.
Commands of users get what a shell would give them. No program gets the variables of an MPI job around it,
which would make our launchers part of that job.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import workloads
from workloads.launcher_names import RANK_VARIABLES

Variables = Mapping[str, str]  # of an environment, by name

UNDO = "LOCKSTEP_UNDO"  # says what ``launchers.launched`` has set for a command

HELD = "LOCKSTEP_HELD"
"""The values of variables in a rank's program that its launcher must not see, as JSON; null for none."""

STEP = "LOCKSTEP_STEP"
"""The number of a user's Slurm job, in an agent's step of that job. The job's own steps lack it."""

PYTHON = (sys.executable, "-P")
"""Starts our own processes: no module in the current directory replaces another one."""

NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR"),
        *("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV"),
        "CONDA_PREFIX",
        "NUMBA_CACHE_DIR",  # else the ranks of a simulation would compile again
        *("SSH_AUTH_SOCK", "KRB5CCNAME"),  # with which launchers log in to other hosts
    )
)
OF_MPI = ("MPICH_", "MPIR_", "HYDRA_", "I_MPI_", "OMPI_", "OPAL_", "PMIX_MCA_", "PRTE_", "FI_", "UCX_")
PREFIXES = ("LC_", "PYTHON", "MPI4PY_", "SLURM_", *OF_MPI)


def forwarded(extra: Variables, source: Variables | None = None) -> dict[str, str]:
    """The allowed part of ``source`` (default: our own environment), overridden by ``extra``.

    PYTHONPATH begins with the directory of our packages, so that ranks import the same ones in an
    editable installation and in a plain checkout. Numeric libraries get one thread.
    """
    source = undone(os.environ) if source is None else source
    passed = {
        name: value
        for name, value in source.items()
        if (name in NAMES or name.startswith(PREFIXES)) and not _inside(name)
    }
    here = str(Path(workloads.__file__).resolve().parents[1])
    passed["PYTHONPATH"] = os.pathsep.join(filter(None, [here, passed.get("PYTHONPATH")]))
    passed["OMP_NUM_THREADS"] = "1"
    return {**passed, **extra}


def of_command(variables: Variables, source: Variables | None = None) -> dict[str, str]:
    """The environment of a command: ``source`` (default: ours) without MPI's and ours, and ``variables``."""
    result = undone(os.environ if source is None else source)
    return {n: v for n, v in result.items() if not _inside(n) and not n.startswith("LOCKSTEP_")} | dict(
        variables
    )


def _inside(name: str) -> bool:
    return name.startswith(RANK_VARIABLES) and not name.startswith("PMIX_MCA_")  # settings of users


def undone(source: Variables) -> dict[str, str]:
    """An environment without what ``launched`` has set in it; additions of others since then are kept."""
    result = dict(source)
    try:
        set_before = dict(json.loads(result.pop(UNDO, "{}")))
        for name, (ours, before) in set_before.items():
            if name not in result:
                continue
            value = before if result[name] == ours else _without(result[name], ours, before)
            if value is None:
                del result[name]
            elif b"\0" in os.fsencode(value):
                raise ValueError(name)
            else:
                result[name] = value
    except (ValueError, TypeError, RecursionError):  # it is not ours
        pass
    return result


def _without(now: str, ours: str, before: str | None) -> str:
    """A list in a variable without the words that are ours alone."""
    word = r"[^\s:;,]+"
    alone = set(re.findall(word, ours)) - set(re.findall(word, before or ""))
    return re.sub(rf"{word}[\s:;,]*", lambda match: "" if match[0].rstrip(" :;,") in alone else match[0], now)

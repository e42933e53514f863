"""The environment of the processes of a run: an allow-list of variables.

A forgotten variable of a shell can change a measurement, and the variables of an MPI job around
us would make our launchers part of that job.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import workloads

UNDO = "LOCKSTEP_UNDO"
"""Says what ``launchers.launched`` has set for a command."""

PYTHON = (sys.executable, "-P")
"""Starts our own processes: no module in the current directory replaces another one."""

NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR"),
        *(
            "XDG_RUNTIME_DIR",
            "XDG_CACHE_HOME",
            "LD_LIBRARY_PATH",
            "LD_PRELOAD",
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
        ),
    )
)
PREFIXES = (
    *("LC_", "PYTHON", "MPI4PY_", "SLURM_"),
    *("MPICH_", "MPIR_", "HYDRA_", "I_MPI_", "OMPI_", "OPAL_", "PMIX_MCA_", "PRTE_", "FI_", "UCX_"),
)
INSIDE = (
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_FILE_LOCATION",
    "HYDRA_PROXY",
    "HYDRA_LAUNCHER_EXTRA",
)
"""Variables that a launcher sets for its ranks: they describe the job around us, not the jobs we start."""


def passed_on(extra: Mapping[str, str], source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The allowed part of ``source`` (default: our own environment), overridden by ``extra``.

    PYTHONPATH begins with the directory of our packages, so that ranks import the same ones in an
    editable installation and in a plain checkout. Numeric libraries get one thread.
    """
    source = undone(os.environ) if source is None else source
    passed = {
        name: value
        for name, value in source.items()
        if (name in NAMES or name.startswith(PREFIXES)) and not name.startswith(INSIDE)
    }
    here = str(Path(workloads.__file__).resolve().parents[1])
    passed["PYTHONPATH"] = os.pathsep.join(filter(None, [here, passed.get("PYTHONPATH")]))
    passed["OMP_NUM_THREADS"] = "1"
    return {**passed, **extra}


def undone(source: Mapping[str, str]) -> dict[str, str]:
    """An environment without what ``launched`` has set in it; additions of others since then are kept."""
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

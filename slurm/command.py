"""Slurm's commands, run in an environment that does not change their meaning."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

PATIENCE_S = 60
FOREIGN = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_")
KEPT = ("SLURM_CONF", "SLURM_JWT")
"""Variables that commands need: they name the cluster and the user."""


NO_CLUSTER = ("configuration source", "Unable to contact slurm controller")
"""What Slurm's commands say where no cluster is set up, or none answers."""


class SlurmError(Exception):
    """A command of Slurm failed; the message names it and quotes its error."""


def cleaned(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` without the variables that change the meaning of a script or of a question."""
    return {
        name: value for name, value in environment.items() if name in KEPT or not name.startswith(FOREIGN)
    }


def ask(*argv: str) -> str:
    """The output of one of Slurm's commands.

    Raises:
        SlurmError: if it is not there, fails, or takes longer than PATIENCE_S.
    """
    try:
        done = subprocess.run(
            argv,
            env=cleaned(os.environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        raise SlurmError(f"there is no {argv[0]} here: submit from a login node of the cluster") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"{argv[0]}: {error}") from error
    said = done.stderr.strip()
    if done.returncode and any(sign in said for sign in NO_CLUSTER):
        why = said.splitlines()[-1].removeprefix(f"{argv[0]}: ")
        raise SlurmError(
            f"no cluster answers {argv[0]} here ({why}): submit from a login node, or set SLURM_CONF"
        )
    if done.returncode:
        raise SlurmError(f"{argv[0]}: {said or f'status {done.returncode}'}")
    return done.stdout

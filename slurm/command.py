"""Slurm's commands, run in an environment that does not change their meaning."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

PATIENCE_S = 60
FOREIGN = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_")
KEPT = ("SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS", "SBATCH_CLUSTERS")
"""Variables that commands need: they name the cluster and the user."""


NO_CLUSTER = ("configuration source", "Unable to contact slurm controller")
"""What Slurm's commands say where no cluster is set up, or none answers."""


class SlurmError(Exception):
    """A command of Slurm failed; the message names it and quotes its error."""


@dataclass(frozen=True)
class Reply:
    """All that a command has said; its ``status`` is negative after a signal, None if it took too long."""

    command: str
    status: int | None
    out: str
    err: str

    @property
    def failure(self) -> str:
        """Why the command failed, in a sentence that names it; empty if it did not."""
        message = self.err.strip()
        if self.status is None:
            return f"{self.command}: no end after {PATIENCE_S} s"
        if self.status and any(sign in message for sign in NO_CLUSTER):
            reason = message.splitlines()[-1].removeprefix(f"{self.command}: ")
            remedy = "submit from a login node, or set SLURM_CONF"
            return f"no cluster answers {self.command} here ({reason}): {remedy}"
        if self.status and self.status < 0:
            return f"{self.command}: ended by signal {-self.status}"
        return f"{self.command}: {message or f'status {self.status}'}" if self.status else ""


def cleaned(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` without the variables that change the meaning of a script or of a question."""
    return {
        name: value for name, value in environment.items() if name in KEPT or not name.startswith(FOREIGN)
    }


def answer(*argv: str, **variables: str) -> Reply:
    """The reply of one of Slurm's commands; if it takes PATIENCE_S or we are interrupted, it is killed.

    ``variables`` are set for it.
    """
    try:
        # Files, not pipes: a child that a site's wrapper leaves behind would keep a pipe open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                argv,
                env=cleaned(os.environ) | variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,
            )
            status = _status(process)
            texts = []
            for file in (out, err):
                file.seek(0)
                text = file.read().decode(errors="replace")
                texts.append(text.replace("\r\n", "\n").replace("\r", "\n"))
    except FileNotFoundError:
        raise SlurmError(f"there is no {argv[0]} here: submit from a login node of the cluster") from None
    except OSError as error:
        raise SlurmError(f"{argv[0]}: {error}") from error
    return Reply(argv[0], status, *texts)


def _status(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status of a process that leads a group; None after PATIENCE_S, when the group is killed."""
    try:
        return process.wait(PATIENCE_S)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            return None
        raise


def ask(*argv: str, **variables: str) -> str:
    reply = answer(*argv, **variables)
    if reply.failure:
        raise SlurmError(reply.failure)
    return reply.out

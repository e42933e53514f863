"""Start any program as a rank of a job.

``python -P -S -m coordinator.node.exec_rank SOCKET JOB VARIABLES COMMAND...``

It tells the node's agent who it is, waits for its start without using the processor, binds
itself, and becomes the program, which knows nothing of it but the VARIABLES, a JSON object, in its
environment. Only the standard library is imported, and little of it: this is done once for every rank.
"""

from __future__ import annotations

import json
import os
import sys
import time

from workloads.agent import AgentLine

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
"""Where the launchers say which rank a process is."""


def main(path: str, job: str, variables: str, *command: str) -> None:
    """Register, wait, and become the program."""
    rank = next((int(os.environ[name]) for name in RANKS if name in os.environ), 0)
    try:
        agent = AgentLine(path, int(job), rank)
        start = agent.begin()
    except ConnectionError as error:
        sys.exit(str(error))
    if start is None:
        return
    agent.tell("becoming", processor=start.core, start_ns=time.monotonic_ns())
    try:
        os.execvpe(command[0], command, {**os.environ, **json.loads(variables)})
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])

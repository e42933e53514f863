"""Start any program as a rank of a job: ``python -S -m coordinator.wrap SOCKET JOB COMMAND...``.

It tells the node's agent who it is, waits for its start without using the processor, binds
itself, and becomes the program, which knows nothing of it. Only the standard library is
imported, and little of it: this is done once for every rank.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

VERSION = 1

AGENT_S = 30.0
"""How long to wait for the agent of this node to come up."""

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
"""Where the launchers say which rank a process is."""


def connected(path: str) -> socket.socket:
    """A connection to the agent, which may come up later than the ranks."""
    deadline = time.monotonic() + AGENT_S
    while True:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            line.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return line


def main(path: str, job: str, *command: str) -> None:
    """Register, wait, and become the program."""
    rank = next((int(os.environ[name]) for name in RANKS if name in os.environ), 0)
    line = connected(path)

    def tell(**message: object) -> None:
        line.sendall(json.dumps(message).encode() + b"\n")

    tell(type="hello", version=VERSION, job=int(job), rank=rank)
    tell(type="ready")
    answer = line.makefile("r").readline()
    if not answer:
        sys.exit("the agent has gone")
    start = json.loads(answer)
    if start["type"] == "leave":  # the workload is over and this job has not begun
        return
    os.sched_setaffinity(0, {start["processor"]})
    time.sleep(max(0.0, (start["at_ns"] - time.monotonic_ns()) / 1e9))
    tell(type="becoming", processor=start["processor"], start_ns=time.monotonic_ns())
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])

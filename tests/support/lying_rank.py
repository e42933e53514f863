"""A rank that does nothing and hands in what it is told to: python lying_rank.py SOCKET JOB LINE.

LINE is the whole message in place of its record; ``@`` in it stands for the time, ``#`` for a long text.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from workloads.agent_line import AgentLine

if __name__ == "__main__":
    path, job, line = sys.argv[1:]
    agent = AgentLine(path, int(job), 0)
    agent.begin()
    line = line.replace("@", str(time.monotonic_ns())).replace("#", "é" * 900_000)
    agent._socket.sendall(line.encode() + b"\n")
    with suppress(ConnectionError):
        agent._expect("leave")

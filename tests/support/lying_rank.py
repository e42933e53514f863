"""A rank that does nothing and hands in what it is told to: python lying_rank.py SOCKET JOB RECORD.

``@`` in the record stands for the time, ``#`` for a long text.
"""

import json
import sys
import time
from contextlib import suppress

from workloads.agent_line import AgentLine

if __name__ == "__main__":
    path, job, record = sys.argv[1:]
    agent = AgentLine(path, int(job), 0)
    agent.begin()
    record = record.replace("@", str(time.monotonic_ns())).replace("#", "é" * 300_000)
    with suppress(ConnectionError):
        agent.leave(json.loads(record))

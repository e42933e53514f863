"""Start any program as a rank of a job.

``python -P -S -m coordinator.node.exec_rank SOCKET JOB RANK VARIABLES COMMAND...``

The process registers with the node's agent, waits for its start without using the processor, binds
itself, and executes the program. RANK is the variable in which the launcher gives it its rank; it may be
empty. The VARIABLES, a JSON object, are added to the program's environment, after those that were held back
from the launcher.
Every rank runs this module, so it imports little, and only from the standard library.
"""

import json
import os
import sys
import time

from coordinator.host.environment import HELD
from workloads.agent_line import AgentLine


def main(path: str, job: str, rank: str, variables: str, *command: str) -> None:
    try:
        agent = AgentLine(path, int(job), int(os.environ.get(rank, "0")))
        start = agent.begin()
    except ConnectionError as error:
        sys.exit(str(error))
    if start is None:
        return
    agent.tell("becoming", processor=start.core, start_ns=time.monotonic_ns())
    held = json.loads(os.environ.pop(HELD, "{}"))
    environment = {**os.environ, **held, **json.loads(variables)}
    try:
        os.execvpe(command[0], command, {name: v for name, v in environment.items() if v is not None})
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])

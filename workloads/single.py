"""A job of one process without messages, sequential or interactive: ``python -P -m workloads.single SPEC``.

It begins and ends like a rank of a parallel job under a coordinator (``workloads.rank``).
"""

import json
import sys
import time
from dataclasses import replace
from typing import Any

from workloads.agent_line import VERSION, AgentLine
from workloads.compute import Compute
from workloads.record import RankResult, Recorder
from workloads.work import SINGLE, InteractiveWork, SequentialWork


def execute(work: SequentialWork | InteractiveWork) -> RankResult:
    """Do the work; a burst is due after its thinking, whether or not the process runs."""
    recorder = Recorder()
    compute = Compute()
    responses_ns = []
    recorder.start()
    if isinstance(work, SequentialWork):
        compute(round(work.work_s * 1e9))
        recorder.computing_ns = compute.ended_ns - compute.began_ns
    else:
        done_ns = time.monotonic_ns()
        for _ in range(work.bursts):
            due_ns = done_ns + round(work.think_ms * 1e6)
            time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
            compute(round(work.burst_ms * 1e6))
            recorder.computing_ns += compute.ended_ns - compute.began_ns
            done_ns = time.monotonic_ns()
            responses_ns.append(done_ns - due_ns)
    bursts = max(1, len(responses_ns))
    return recorder.finish(0, 1, bursts, responses_ns=tuple(responses_ns) or None)


def main(spec: dict[str, Any]) -> None:
    if spec["version"] != VERSION:
        raise RuntimeError(f"found specification version {spec['version']}, required {VERSION}")
    work = SINGLE[spec["kind"]](**spec["work"])
    agent = AgentLine(spec["socket"], spec["job"], 0)
    start = agent.begin()
    if start is not None:
        agent.leave(replace(execute(work), job=spec["job"], processor=start.core).recorded())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

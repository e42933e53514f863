"""One MPI rank of a job: ``mpiexec -n P python -P -m mpi4py -m workloads.rank SPEC``.

It announces itself on the agent's socket, waits there without using the processor, runs, sends its record and
waits again: so neither the start of MPI nor its end disturbs other jobs' measurements. mpi4py's runner aborts
all ranks when one of them fails.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpi4py import MPI

from workloads.agent_line import VERSION, AgentLine
from workloads.compute import measured_step_ns
from workloads.coscheduling import Coscheduling, Observer
from workloads.execute import Checkpoint, LaunchedProgram, MoldableExecution, checkpoint_file
from workloads.locks import page_file
from workloads.locks.lock_program import LockProgram
from workloads.malleable import MalleableExecution, Wish
from workloads.messaging import ROOT, world
from workloads.options import Options
from workloads.patterns import LOCK, TASKS
from workloads.program import Program
from workloads.tasks import TaskExecution
from workloads.timeline import Timeline
from workloads.waiting_rules import Waiting


def prepare(
    launched: LaunchedProgram,
    timeline: Timeline | None = None,
    wish: Wish = lambda: None,
    evolve: Callable[[int], None] = lambda processes: None,
) -> MoldableExecution | MalleableExecution | TaskExecution:
    """Do everything that a rank can do before its program starts; returns the program, ready to run.

    Collective. A program that adapts asks ``wish`` for its cores; any other writes ``timeline``, if given.
    An evolving program tells ``evolve`` how many processes it can use from now on.
    """
    program = launched.program
    if program.working_set_bytes and not launched.memory_step_ns:
        # Ranks that share a processor at this moment measure too much, never too little.
        step_ns = launched.comm.allreduce(measured_step_ns(program.working_set_bytes), MPI.MIN)
        launched = launched._replace(memory_step_ns=step_ns)
    if program.pattern == TASKS:
        return TaskExecution(launched, wish, evolve)
    return MalleableExecution(launched, wish) if program.malleable else MoldableExecution(launched, timeline)


def main(spec: dict[str, Any]) -> None:
    if spec["version"] != VERSION:
        raise RuntimeError(f"found specification version {spec['version']}, required {VERSION}")
    comm = world()
    if comm.size != spec["processes"]:
        raise RuntimeError(
            f"the job has {spec['processes']} processes but MPI sees {comm.size}: "
            f"mpiexec must belong to the MPI that mpi4py uses, {MPI.Get_library_version().split(',')[0]}"
        )
    table = spec["program"]
    options = Options(**spec["options"])
    program = LockProgram(**table) if table["pattern"] == LOCK else Program(**table)

    def rule(moulded: Program) -> Waiting:
        return options.waiting_rule(
            context_switch_us=spec["context_switch_us"],
            latency_us=spec["latency_us"],
            imbalance_us=moulded.imbalance_us,
        )

    agent = AgentLine(spec["socket"], spec["job"], comm.rank)
    folder = Path(spec["socket"]).parent
    seed, repeat, job = spec["key"]
    timeline = Timeline() if spec.get("timeline") and not program.adapts else None
    checkpoint = None
    if program.checkpoint_phases:
        file = checkpoint_file(folder, spec["job"])
        checkpoint = Checkpoint(file, program.checkpoint_phases, comm.rank == ROOT)
    coscheduling = None
    if settings := spec.get("coscheduling"):
        coscheduling = Coscheduling(_near(comm), folder, spec["job"], **settings)
    observer = Observer(agent.observe, **spec["observation"]) if spec.get("observation") else None
    launched = LaunchedProgram(
        comm,
        program,
        rule,
        (seed, repeat, job),
        spec["memory_step_ns"],
        clock=agent.clock(),
        checkpoint=checkpoint,
        page=page_file(folder, job),
        coscheduling=coscheduling,
        remedy=options.remedy,
        observer=observer,
    )
    execution = prepare(launched, timeline, agent.wish, agent.evolve)
    start = agent.begin()
    if start is not None:
        result = replace(execution.run(start.ranks), job=spec["job"], processor=start.core)
        if timeline:
            result = result.traced(timeline.rows(result.start_ns), timeline.lost)
        agent.leave(result.recorded())
    execution.close()


def _near(comm: MPI.Intracomm) -> dict[int, int]:
    """The process ids of the ranks on this node. Collective."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    assert isinstance(node, MPI.Intracomm)
    pids = dict(node.allgather((comm.rank, os.getpid())))
    node.Free()
    return pids


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""Programs with a central queue of tasks: processes take tasks, come and go, and move.

A process is at a safe point when it begins, when its task is over and when it wakes. There it leaves if no
task is left. It sleeps if its job may have, or can use, no more running processes than its rank says.
Whoever leaves or begins a phase of another parallelism wakes it, or a decision that allots more
processors. It moves to the processor that the decision gives it. Else it takes the next task. The queue is
in memory: it takes no message and no time.

The same on real ranks: ``workloads/tasks.py``.
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.alarms import wake
from harness.simulator.processes.caches import pay
from harness.simulator.processes.model import (
    BLOCKED,
    BOUND,
    COMPUTE,
    DEPARTED,
    EVOLVED,
    FINISHED,
    REFILL,
    SUSPENDED,
    State,
)
from harness.simulator.processes.processor import block, compute, dispatch, leave
from harness.simulator.processes.ready_queues import move
from harness.simulator.processes.rests import overrun_ns


@step
def safe_point(state: State, p: int, q: int) -> None:
    """Running process ``q`` leaves, sleeps, moves, or takes the next task."""
    process = state.processes[q]
    job = state.jobs[process.job]
    if job.taken == job.phases:
        finish(state, p)
        resume_suspended(state, process.job, job.processes)
        return
    may_run = process.rank < min(job.allotted, usable(state, process.job, job.taken))
    if may_run and (state.homes[q] == p or state.machine[0].queue != BOUND):
        take_task(state, p, q)
        return
    process.activity = SUSPENDED
    block(state, p)
    if may_run:
        resume(state, q)


@step
def take_task(state: State, p: int, q: int) -> None:
    """Running process ``q`` begins the next task; at the second half of the drawn ones it asks for more."""
    process = state.processes[q]
    job = state.jobs[process.job]
    if job.taken + len(state.compute_ns) // 2 >= job.drawn and job.drawn < job.phases:
        state.clock[0].status = REFILL
        state.clock[0].subject = process.job
    process.activity = COMPUTE
    process.remaining_ns = overrun_ns(state, p)
    process.remaining_ns += state.compute_ns[job.taken & (len(state.compute_ns) - 1), job.first]
    if state.machine[0].cache_bytes > 0:
        pay(state, q)
    process.phase += 1
    job.taken += 1
    compute(state, p, process)
    now = usable(state, process.job, job.taken - 1)
    if now != usable(state, process.job, job.taken - 2):
        state.clock[0].status = EVOLVED
        state.clock[0].subject = process.job
        resume_suspended(state, process.job, min(now, job.allotted))


@hot
def usable(state: State, index: int, task: int) -> int:
    """How many processes of job ``index`` can take this task, before the first all."""
    job = state.jobs[index]
    if task < 0:
        return int(job.asked)
    left = task % job.profile_tasks
    at = job.profile_at
    while left >= state.profiles[at, 0]:
        left -= state.profiles[at, 0]
        at += 1
    return int(state.profiles[at, 1])


@step
def finish(state: State, p: int) -> None:
    """The process of processor ``p`` leaves for good; so does its job, if it was the last one."""
    index = state.processes[state.processors[p].current].job
    job = state.jobs[index]
    leave(state, p, FINISHED)
    job.unfinished -= 1
    if job.unfinished == 0:
        job.finish_ns = state.clock[0].now_ns
        state.clock[0].status = DEPARTED
        state.clock[0].subject = index
    dispatch(state, p)


@step
def resume_suspended(state: State, index: int, count: int) -> None:
    """Wake the suspended processes among the first ``count`` of job ``index``."""
    first = state.jobs[index].first
    for q in range(first, first + count):
        process = state.processes[q]
        if process.state == BLOCKED and process.activity == SUSPENDED:
            resume(state, q)


@step
def resume_allotted(state: State) -> None:
    """After a decision, wake the suspended processes that may run."""
    for index in range(len(state.jobs)):
        job = state.jobs[index]
        if job.tasks:
            resume_suspended(state, index, job.allotted)


@step
def resume(state: State, q: int) -> None:
    """Wake suspended process ``q``, where it is to be."""
    process = state.processes[q]
    if state.machine[0].queue == BOUND and state.homes[q] != process.processor:
        process.delayed = 0  # it leaves the old queue, with its debt
        move(state, q, state.homes[q])
    process.replied = 1
    wake(state, q)

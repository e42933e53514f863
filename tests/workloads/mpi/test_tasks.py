"""Programs with a central queue of tasks: processes come and go by themselves. For any number of ranks."""

from itertools import chain

import pytest
from mpi4py import MPI

from workloads.compute import Compute
from workloads.execute import LaunchedProgram
from workloads.malleable import ANYWHERE
from workloads.program import Draws, Program
from workloads.tasks import TaskExecution, TaskQueue

COMM = MPI.COMM_WORLD
KEY = (1, 0, 0)


def run(tasks, sizes, first=None, granularity_us=50, parallelism=(), evolve=lambda processes: None):
    """The records of all ranks, and how long each was to compute in each of its tasks.

    At first as many processes run as ``first`` says, by default all. The root wishes ``sizes[n]`` when it
    asks for the n-th time, before its n-th task.
    """
    program = Program("TASKS", COMM.size, granularity_us, imbalance=1, phases=tasks, parallelism=parallelism)
    log = []
    asked = 0

    class Logged(Compute):
        def __call__(self, amount_ns):
            log.append(amount_ns)
            super().__call__(amount_ns)

    def wish():
        nonlocal asked
        asked += 1
        return [ANYWHERE] * sizes[asked] if asked in sizes else None

    launched = LaunchedProgram(COMM, program, lambda _: None, KEY, 0.0)
    execution = TaskExecution(launched, wish, evolve, Logged)
    record = execution.run(range(first or COMM.size))
    execution.close()
    return COMM.allgather(record), COMM.allgather(log)


def test_nobody_gets_the_task_of_another():
    queue = TaskQueue(COMM)
    mine = []
    while (task := queue.taken) < 1000:
        mine += [task] if queue.take(task) else []
    queue.close()
    assert mine == sorted(mine)
    assert sorted(chain(*COMM.allgather(mine))) == list(range(1000))


@pytest.mark.parametrize("sizes", [(), (max(1, COMM.size // 2), 1, COMM.size)], ids=str)
def test_every_task_is_carried_out_once_whoever_runs(sizes):
    records, logs = run(300, {10 * at: size for at, size in enumerate(sizes, 1)})
    sizes_of_program = records[0].sizes
    assert sum(record.phases for record in records) == sum(tasks for tasks, _ in sizes_of_program) == 300
    assert [running for _, running in sizes_of_program] == [COMM.size, *sizes][: len(sizes_of_program)]
    assert all(record.sizes is None for record in records[1:])
    drawn = Draws(Program("TASKS", COMM.size, 50, 1, phases=300), 0, KEY).compute_ns(300).tolist()
    assert sorted(chain(*logs)) == sorted(drawn)


def test_processes_that_may_not_run_take_no_task():
    records, _ = run(100, {20: COMM.size}, first=1)
    assert records[0].sizes[0] == (19, 1), "the root alone"


def test_after_a_change_every_process_finishes_the_task_that_it_has_taken_and_no_more():
    records, _ = run(2000, {2: 1, 42: COMM.size}, granularity_us=20)
    sizes = records[0].sizes
    if len(sizes) == 3:  # else the others have carried out all tasks before
        assert 40 <= sizes[1][0] <= 40 + COMM.size - 1


def test_suspended_processes_use_no_processor():
    """While process 0 works for 0.1 s, the others sleep; at its end they wake and leave."""
    records, _ = run(50, {}, first=1, granularity_us=2000)
    for record in records[1:]:
        assert record.phases == 0
        assert record.cpu_ns < 20e6


def test_an_evolving_program_says_how_many_processes_it_can_use_and_uses_no_more():
    answers = []
    profile = ((5, 1), (20, COMM.size))
    records, logs = run(100, {}, parallelism=profile, evolve=answers.append)
    drawn = Draws(Program("TASKS", COMM.size, 50, 1, phases=100), 0, KEY).compute_ns(100).tolist()
    alone = {time for task, time in enumerate(drawn) if task % 25 < 5}
    assert alone <= set(logs[0]), "the tasks that one process can take are those of the root"
    assert sum(record.phases for record in records) == 100
    all_answers = sorted(chain(*COMM.allgather(answers)))
    assert all_answers == ([1] * 4 + [COMM.size] * 4 if COMM.size > 1 else [])

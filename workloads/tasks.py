"""A program with a central queue of tasks, whose processes suspend and resume themselves between tasks.

Every process takes the next task from the queue until none is left. The queue is a counter in memory
that the processes of a node share. There, too, is the number of processes that may run. A process looks
at it before each task, the safe point. Process r runs if the number is more than r; else it sleeps in
the kernel. Process 0 always runs, and writes what the agent says.

Source: Tucker and Gupta 1989 (process control). Their processes ask a central server every 6 s.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from mpi4py import MPI

from workloads.agent_line import ANYWHERE
from workloads.compute import Compute
from workloads.doorbell import CACHE_LINE_BYTES, WORD_BYTES, Futex
from workloads.execute import LaunchedProgram
from workloads.malleable import Wish
from workloads.messaging import RECHECK_NS, ROOT
from workloads.program import Draws
from workloads.record import RankResult, Recorder

NEXT, ALLOTTED, OVER, CORES = range(4)
"""Words of the page: the next task, how many processes may run (0: as many as began), whether no task is
left, and the first core of those that may run."""

BLOCK_TASKS = 256  # number of tasks whose times are drawn at once


class TaskQueue:
    """The queue of a job on one node. Collective: all processes make it together and close it together."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        assert isinstance(node, MPI.Intracomm)
        if node.size < comm.size:
            raise RuntimeError("the processes of a TASKS program share a queue in the memory of one node")
        self._rank = comm.rank
        self._size = comm.size
        head = -(-(CORES + comm.size) * WORD_BYTES // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
        size = head + comm.size * CACHE_LINE_BYTES
        self._window = MPI.Win.Allocate_shared(size if comm.rank == ROOT else 0, WORD_BYTES, comm=node)
        self._window.Lock_all()
        address = self._window.Shared_query(ROOT)[0].address
        shared = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
        if comm.rank == ROOT:
            shared[:] = bytes(size)
        self._words, self._flags = shared.cast("q"), shared.cast("i")
        self._places = [(head + rank * CACHE_LINE_BYTES) // self._flags.itemsize for rank in range(comm.size)]
        self._bells = [Futex(address + place * self._flags.itemsize) for place in self._places]
        self._one, self._found, self._expected = (memoryview(bytearray(8)).cast("q") for _ in range(3))
        self._window.Sync()
        node.Barrier()
        node.Free()

    def take(self, task: int) -> bool:
        """Take the task of this number; False if another process has taken it."""
        self._one[0], self._expected[0] = task + 1, task
        self._window.Compare_and_swap(self._one, self._expected, self._found, ROOT, NEXT)
        self._window.Flush(ROOT)
        return bool(self._found[0] == task)

    @property
    def taken(self) -> int:
        self._window.Fetch_and_op(self._one, self._found, ROOT, NEXT, MPI.NO_OP)
        self._window.Flush(ROOT)
        return self._found[0]

    def end(self) -> None:
        self._words[OVER] = 1
        self.wake(range(self._size))

    @property
    def over(self) -> bool:
        """Whether a process has found that no task is left."""
        return self._words[OVER] > 0

    @property
    def allotted(self) -> int:
        """How many processes may run; 0 if it is not known yet."""
        return self._words[ALLOTTED]

    @property
    def core(self) -> int:
        return self._words[CORES + self._rank]

    def allot(self, cores: Sequence[int]) -> None:
        """Let the first processes run, one on each of ``cores``, and no other one from its next task on."""
        cores = cores[: self._size]
        for rank, core in enumerate(cores):
            self._words[CORES + rank] = core
        self._window.Sync()
        self._words[ALLOTTED] = len(cores)
        self.wake(range(len(cores)))

    def suspend(self, may_run: Callable[[], bool]) -> None:
        """Sleep until another one wakes this process, unless it may run already or no task is left."""
        mine = self._places[self._rank]
        self._flags[mine] = 1
        self._window.Sync()
        if not may_run() and not self.over:
            self._bells[self._rank].wait(RECHECK_NS)
        self._flags[mine] = 0

    def wake(self, ranks: Sequence[int]) -> None:
        """Wake sleeping ranks; one that is about to sleep sees what has been written before."""
        self._window.Sync()
        for rank in ranks:
            if self._flags[self._places[rank]]:
                self._flags[self._places[rank]] = 0
                self._bells[rank].wake()

    def close(self) -> None:
        self._words.release()
        self._flags.release()
        self._window.Unlock_all()
        self._window.Free()


class TaskExecution:
    """A TASKS program ready to run on this rank. Collective over all launched ranks.

    Process 0 asks ``wish`` for new cores before each of its tasks. ``evolve`` is called with the number of
    processes that can take tasks from now on, when a phase of an evolving program begins that another number
    can use. ``compute`` makes the object that spends compute times, from the two numbers that Compute takes.
    """

    def __init__(
        self,
        launched: LaunchedProgram,
        wish: Wish,
        evolve: Callable[[int], None] = lambda processes: None,
        compute: Callable[[int, float], Compute] = Compute,
    ) -> None:
        self._comm = launched.comm
        program = launched.program
        self._program, self._tasks = program, program.phase_count()
        self._queue = TaskQueue(self._comm)
        self._wish = wish
        self._evolve = evolve
        self._compute = compute(program.working_set_bytes, launched.memory_step_ns)
        # All draw the times of all tasks, so that a task takes as long in each of them.
        self._times = _times(Draws(program, ROOT, launched.key))
        self._drawn = 0
        self._core = ANYWHERE
        self._began = 0
        self._sizes: list[tuple[int, int]] = []

    def run(self, ranks: Sequence[int] = ()) -> RankResult:
        """Take tasks until none is left; the result's ``phases`` counts those of this process.

        At first as many processes run as ``ranks`` has entries, by default all, each where it is.
        The root's ``sizes`` lists (tasks, processes) from one change to the next.
        """
        recorder = Recorder()
        tasks = 0
        self._began = len(ranks) or self._comm.size
        recorder.start()
        while (task := self._next()) is not None:
            recorder.communicating_ns += recorder.lap()
            self._compute(self._time_of(task))
            recorder.computing_ns += recorder.lap()
            tasks += 1
        if self._comm.rank == ROOT:
            self._note(self._queue.allotted or self._began)
        return recorder.finish(self._comm.rank, self._comm.size, tasks, sizes=tuple(self._sizes) or None)

    def close(self) -> None:
        self._queue.close()

    def _next(self) -> int | None:
        """The safe point: heed what the agent says, then take a task; None if none is left."""
        queue = self._queue
        if self._comm.rank == ROOT and (cores := self._wish()) is not None:
            self._heed(cores)
        while (task := queue.taken) < self._tasks:
            if not self._may_run(task):
                queue.suspend(lambda: self._may_run(queue.taken))
            elif queue.allotted and queue.core not in (self._core, ANYWHERE):
                self._core = queue.core
                os.sched_setaffinity(0, {self._core})
            elif queue.take(task):
                self._begin_phase(task)
                return task
        queue.end()
        return None

    def _heed(self, cores: Sequence[int]) -> None:
        """Let as many processes run, and note where that begins: tasks taken meanwhile count for the more."""
        fewer = len(cores) < (before := self._queue.allotted or self._began)
        if fewer:
            self._queue.allot(cores)
        self._note(before)
        if not fewer:
            self._queue.allot(cores)

    def _may_run(self, task: int) -> bool:
        """Whether this process may take a task: the job has a processor, and the program a use, for it."""
        rank: int = self._comm.rank
        return rank < min(self._queue.allotted or self._began, self._program.usable(task))

    def _begin_phase(self, task: int) -> None:
        """If the first task of a phase has been taken, say how many processes can work now, and wake them."""
        program = self._program
        before = program.usable(task - 1) if task else program.processes
        if (now := program.usable(task)) != before:
            self._queue.wake(range(min(now, self._comm.size)))
            self._evolve(now)

    def _note(self, processes: int) -> None:
        before = sum(tasks for tasks, _ in self._sizes)
        self._sizes.append((self._queue.taken - before, processes))

    def _time_of(self, task: int) -> int:
        skipped = task - self._drawn
        self._drawn = task + 1
        return next(islice(self._times, skipped, None))


def _times(draws: Draws) -> Iterator[int]:
    while True:
        yield from draws.compute_ns(BLOCK_TASKS).tolist()

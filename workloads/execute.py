"""One rank's run of a program: the phases of the bulk-synchronous loop, in order.

A program starts on as many of its launched ranks as the policy grants; the others sleep in the kernel until
their agent wakes them: all have made MPI's collective calls before the start line.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple

from workloads import waiting_rules
from workloads.compute import Compute
from workloads.coscheduling import Coscheduling, Observer
from workloads.locks import SectionLocks
from workloads.locks.lock_program import LOCKS
from workloads.messaging import Messenger, one_node
from workloads.options import NOTHING_DONE, Remedy
from workloads.program import Draws, Program
from workloads.record import RankResult, Recorder
from workloads.timeline import Timeline
from workloads.tracing import TracedCompute, TracedLocks, TracedMessenger
from workloads.validation import LockstepError
from workloads.waiting_rules import Waiting


class Checkpoint:
    """The checkpoint of one program in a file; reads the last one: ``done`` phases need not run again.

    Args:
        file: exists if the program made a checkpoint before.
        every: phases from one checkpoint to the next.
        writes: whether this process writes them.
    """

    def __init__(self, file: Path, every: int, writes: bool) -> None:
        self._file = file
        self._every = every
        self._writes = writes
        try:
            self.done = int(file.read_text(encoding="ascii"))
        except FileNotFoundError:
            self.done = 0
        self._phases = self.done

    def after_phase(self) -> bool:
        """Note the end of a phase, write the checkpoint if it is due; return False: the program continues."""
        self._phases += 1
        if self._writes and self._phases % self._every == 0:
            new = self._file.with_suffix(".new")
            new.write_text(str(self._phases), encoding="ascii")
            new.replace(self._file)  # a process that is killed now leaves the one before
        return False


def checkpoint_file(folder: Path, job: int) -> Path:
    return folder / f"checkpoint-{job}"


Rule = Callable[[Program], Waiting]  # returns the waiting rule of a program on its number of processes


class LaunchedProgram(NamedTuple):
    """A program, on the number of processes that it asks for, and all ranks that were launched for it."""

    comm: Any  # these ranks
    program: Program
    rule: Rule  # gives the waiting rule of the ranks that run
    key: tuple[int, ...]  # (seed, repeat, job, ...) of the compute times
    memory_step_ns: float  # CPU time of one step through the working set
    clock: Callable[[], int] = time_ns  # returns nanoseconds of a clock that all ranks share
    checkpoint: Checkpoint | None = None
    # The file for the locks of the pattern LOCK, if its ranks have a directory in common.
    page: Path | None = None
    coscheduling: Coscheduling | None = None
    remedy: Remedy = NOTHING_DONE
    observer: Observer | None = None


BLOCK_PHASES = 256
"""Number of phases whose compute times are drawn at once: memory does not grow with the run."""


class Execution:
    """A launched program ready to run on this rank, its first compute times drawn.

    It continues after its last checkpoint, if it makes any. The observer hears of the rank's messages after
    each phase but the last. The ranks that run are the messenger's; ``compute`` makes the object that spends
    compute times, from the two numbers that Compute takes.
    """

    def __init__(
        self,
        launched: LaunchedProgram,
        messenger: Messenger,
        recorder: Recorder,
        compute: Callable[[int, float], Compute] = Compute,
    ) -> None:
        self._program = program = launched.program.on(messenger.size)
        self._messenger = messenger
        self._recorder = recorder
        self._draws = Draws(program, messenger.rank, launched.key)
        self._compute = compute(program.working_set_bytes, launched.memory_step_ns)
        self._targets: list[int] = program.reads()[messenger.rank].tolist()
        self._checkpoint = launched.checkpoint
        self._observer = launched.observer
        self._phases = program.phase_count()
        if self._checkpoint is not None:
            self._draws.skip(self._checkpoint.done)
            self._phases -= self._checkpoint.done
        self._block = self._draw(min(BLOCK_PHASES, self._phases))

    def run(self) -> RankResult:
        """Run all phases, those after the last checkpoint if there is one."""
        recorder = self._recorder
        messenger = self._messenger
        recorder.start()
        self.advance(None if self._checkpoint is None else self._checkpoint.after_phase)
        return recorder.finish(
            messenger.rank,
            messenger.size,
            self._phases,
            messenger.served,
            messenger.rechecks,
            estimate_ns=messenger.estimate_ns,
        )

    def close(self) -> None:
        self._messenger.close()

    def advance(self, over: Callable[[], bool] | None = None) -> int:
        """Run phases to the last, or the first after which ``over()`` holds; returns how many ran."""
        total = remaining = self._phases
        recorder = self._recorder
        recorder.computing_ns += recorder.lap()
        while remaining:
            for compute_ns, gap_ns in zip(*self._block, strict=True):
                self._phase(compute_ns, gap_ns)
                remaining -= 1
                if self._observer is not None and remaining:
                    self._observer.phase_over(self._messenger.received)
                    recorder.computing_ns += recorder.lap()  # it takes time of its own, as what follows
                if over is not None and remaining:
                    if over():
                        return total - remaining
                    recorder.computing_ns += recorder.lap()
            if remaining:
                self._block = self._draw(min(BLOCK_PHASES, remaining))
        return total

    def _draw(self, count: int) -> tuple[list[int], list[int]]:
        compute_ns: list[int] = self._draws.compute_ns(count).tolist()
        gap_ns: list[int] = self._draws.gap_ns(count).tolist()
        return compute_ns, gap_ns

    def _phase(self, compute_ns: int, gap_ns: int) -> None:
        program = self._program
        recorder = self._recorder
        messenger = self._messenger
        self._computed(compute_ns)
        if program.opening_barrier:
            messenger.barrier(learning=True)
            recorder.synchronizing_ns += recorder.lap()
        if not program.closing_barrier:
            return
        for target in self._targets:
            self._computed(gap_ns)
            messenger.poll()
            messenger.read(target)
            recorder.communicating_ns += recorder.lap()
        messenger.barrier(learning=not program.opening_barrier)
        recorder.synchronizing_ns += recorder.lap()

    def _computed(self, amount_ns: int) -> None:
        """Compute since the last passage: what Python does in between is a part of the computation."""
        compute = self._compute
        recorder = self._recorder
        compute(amount_ns, recorder.mark_ns)
        recorder.computing_ns += compute.ended_ns - recorder.mark_ns
        recorder.mark_ns = compute.ended_ns


class LockExecution(Execution):
    """A program of the pattern LOCK: waits for ``locks`` are synchronization, sections are computation."""

    def __init__(self, locks: SectionLocks, program: Program, *arguments: Any) -> None:
        self._locks = locks
        self._places = program.locks
        self._section_ns = round(program.section_us * 1e3)
        self._section = Compute()
        super().__init__(*arguments)

    def run(self) -> RankResult:
        result = super().run()
        return replace(result, rechecks=(result.rechecks or 0) + self._locks.rechecks)

    def _draw(self, count: int) -> tuple[list[int], list[int]]:
        compute_ns: list[int] = self._draws.compute_ns(count).tolist()
        locks: list[int] = self._draws.among(self._places, count).tolist()
        return compute_ns, locks

    def _phase(self, compute_ns: int, lock: int) -> None:
        recorder = self._recorder
        section = self._section
        locks = self._locks
        self._computed(compute_ns)
        locks.enter(lock)
        section(self._section_ns)
        locks.leave(lock)
        # Everything else waits until the section is over.
        recorder.synchronizing_ns += section.began_ns - recorder.mark_ns
        recorder.computing_ns += section.ended_ns - section.began_ns
        recorder.mark_ns = section.ended_ns
        recorder.barriers.add(*locks.last_wait())


class MoldableExecution:
    """A program ready to run on this rank; it writes ``timeline`` if given. Collective over all ranks."""

    def __init__(self, launched: LaunchedProgram, timeline: Timeline | None = None) -> None:
        self._launched = launched
        comm = launched.comm
        program = launched.program
        self._recorder = Recorder()
        self._compute = partial(TracedCompute, timeline) if timeline else Compute
        make = partial(TracedMessenger, timeline=timeline) if timeline else Messenger
        self._make_locks = partial(TracedLocks, timeline) if timeline else SectionLocks
        self._messenger = make(
            comm,
            launched.rule(program.on(comm.size)),
            self._recorder,
            one_sided=program.read == "rma",
            clock=launched.clock,
            coscheduling=launched.coscheduling,
        )
        self._file = page_of(launched) if program.locks else None
        self._execution = self._made()

    def run(self, ranks: Sequence[int] = ()) -> RankResult:
        """Run all phases on ``ranks`` of the communicator, by default all."""
        if ranks and list(ranks) != list(range(self._launched.comm.size)):
            self._messenger.enter(ranks, self._launched.rule(self._launched.program.on(len(ranks))))
            self._execution = self._made()
        return self._execution.run()

    def _made(self) -> Execution:
        launched = self._launched
        arguments = (launched, self._messenger, self._recorder, self._compute)
        if self._file is None:
            return Execution(*arguments)
        program = launched.program.on(self._messenger.size)
        comm = launched.comm  # others know ranks as they were launched
        limit_ns = waiting_rules.read_limit(launched.rule(program))
        kind = LOCKS[program.lock]
        locks = self._make_locks(
            self._file, comm.rank, comm.size, program.locks, kind, limit_ns, launched.remedy
        )
        return LockExecution(locks, program, *arguments)

    def close(self) -> None:
        """Free its MPI resources. Collective over all launched ranks."""
        self._messenger.close()
        if self._file is not None:
            os.close(self._file)


def page_of(launched: LaunchedProgram) -> int:
    """A descriptor of the page for the locks that all ranks share, without a name if need be. Collective."""
    comm = launched.comm
    page = launched.page
    flags = os.O_RDWR | os.O_CLOEXEC
    if not one_node(comm):
        raise LockstepError(
            f"the {comm.size} processes of a LOCK job are on several nodes, and their locks need a page of "
            "one: give the job at most as many processes as a node has processors, or choose another pattern"
        )
    own = -1
    if comm.rank == 0 and page is None:
        own = os.memfd_create("locks")
    elif comm.rank == 0 and page is not None:
        page.unlink(missing_ok=True)  # of ranks that were killed, maybe in a section
        own = os.open(page, flags | os.O_CREAT | os.O_EXCL, 0o600)
    shared = comm.bcast(f"/proc/{os.getpid()}/fd/{own}", 0)
    file = own if comm.rank == 0 else os.open(shared, flags)
    comm.Barrier()
    return file

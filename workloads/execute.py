"""One rank's run of a program: the phases of the bulk-synchronous loop, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time_ns
from typing import Any

from workloads.compute import Compute
from workloads.locks import SectionLocks
from workloads.locks.lock_program import LockProgram
from workloads.messaging import Messenger
from workloads.observer import Observer
from workloads.program import Draws, Program
from workloads.record import Recorder


class Checkpoint:
    """The checkpoint of one program in a file; reads the last one.

    Attributes:
        done: phases that need not run again.

    Args:
        file: which exists if the program made a checkpoint before.
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
        """Note the end of a phase, write the checkpoint if it is due; return False: the program goes on."""
        self._phases += 1
        if self._writes and self._phases % self._every == 0:
            new = self._file.with_suffix(".new")
            new.write_text(str(self._phases), encoding="ascii")
            new.replace(self._file)  # a process that is killed now leaves the one before
        return False


def checkpoint_file(folder: Path, job: int) -> Path:
    """Where a job of a run leaves its checkpoint; ``folder`` is the run's."""
    return folder / f"checkpoint-{job}"


BLOCK_PHASES = 256
"""Number of phases whose compute times are drawn at once: memory does not grow with the run."""


class Execution:
    """A program ready to run on this rank, its first compute times drawn.

    Args:
        program: what to run; its ``processes`` must be the messenger's size.
        messenger: the rank's messages.
        recorder: takes the rank's times.
        key: (seed, repeat, job, ...) of the compute times.
        walk_step_ns: CPU time of one step through the working set.
        compute: makes the object that spends compute times, from the two numbers that Compute takes.
        checkpoint: of the program, if it makes any: it continues after the last one.
        observer: of the rank's messages, which it hears of after each phase but the last; nobody if None.
    """

    def __init__(
        self,
        program: Program,
        messenger: Messenger,
        recorder: Recorder,
        key: Sequence[int],
        walk_step_ns: float = 0.0,
        compute: Callable[[int, float], Compute] = Compute,
        checkpoint: Checkpoint | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._program = program
        self._messenger = messenger
        self._recorder = recorder
        self._draws = Draws(program, messenger.rank, key)
        self._compute = compute(program.working_set_bytes, walk_step_ns)
        self._targets: list[int] = program.reads()[messenger.rank].tolist()
        self._checkpoint = checkpoint
        self._observer = observer
        self._phases = program.phase_count()
        if checkpoint is not None:
            self._draws.skip(checkpoint.done)
            self._phases -= checkpoint.done
        self._block = self._draw(min(BLOCK_PHASES, self._phases))

    def run(self) -> dict[str, Any]:
        """Run all phases, those after the last checkpoint if there is one; returns the rank's record."""
        recorder, messenger = self._recorder, self._messenger
        recorder.start()
        self.advance(None if self._checkpoint is None else self._checkpoint.after_phase)
        record = recorder.finish()
        return {
            "rank": messenger.rank,
            "processes": messenger.size,
            "phases": self._phases,
            **record,
            "served": messenger.served,
            "rechecks": messenger.rechecks,
            "estimate_ns": messenger.estimate_ns,
        }

    def close(self) -> None:
        """Free its MPI resources. Collective."""
        self._messenger.close()

    def advance(self, over: Callable[[], bool] | None = None) -> int:
        """Run phases to the last, or the first after which ``over()`` holds; returns how many ran."""
        total = left = self._phases
        while left:
            for compute_ns, gap_ns in zip(*self._block, strict=True):
                self._phase(compute_ns, gap_ns)
                left -= 1
                if self._observer is not None and left:
                    self._observer.phase_over(self._messenger.received)
                if over is not None and left and over():
                    return total - left
            if left:
                self._block = self._draw(min(BLOCK_PHASES, left))
        return total

    def _draw(self, count: int) -> tuple[list[int], list[int]]:
        compute_ns: list[int] = self._draws.compute_ns(count).tolist()
        gap_ns: list[int] = self._draws.gap_ns(count).tolist()
        return compute_ns, gap_ns

    def _phase(self, compute_ns: int, gap_ns: int) -> None:
        program, recorder, messenger, compute = (
            self._program,
            self._recorder,
            self._messenger,
            self._compute,
        )
        self._computed(compute_ns)
        if program.opening_barrier:
            messenger.barrier(learning=True)
            recorder.synchronizing_ns += self._lap()
        if not program.closing_barrier:
            return
        for target in self._targets:
            compute(gap_ns)
            messenger.poll()
            messenger.read(target)
            recorder.computing_ns += compute.ended_ns - compute.began_ns
            recorder.communicating_ns += self._lap() - (compute.ended_ns - compute.began_ns)
        messenger.barrier(learning=not program.opening_barrier)
        recorder.synchronizing_ns += self._lap()

    def _computed(self, amount_ns: int) -> None:
        self._compute(amount_ns)
        self._recorder.computing_ns += self._lap()

    def _lap(self) -> int:
        now = thread_time_ns()
        lap = now - self._recorder.mark_ns
        self._recorder.mark_ns = now
        return lap


class LockExecution(Execution):
    """A program of the pattern LOCK, ready to run on this rank; ``locks`` are its job's.

    Its waits for locks count as synchronization, like waits at barriers, and its sections as computation.
    """

    def __init__(self, locks: SectionLocks, program: LockProgram, *given: Any, **options: Any) -> None:
        self._locks = locks
        self._places = program.locks
        self._section_ns = round(program.section_us * 1e3)
        self._section = Compute()
        super().__init__(program, *given, **options)

    def run(self) -> dict[str, Any]:
        """Run all phases; returns the rank's record."""
        record = super().run()
        return record | {"rechecks": record["rechecks"] + self._locks.rechecks}

    def _draw(self, count: int) -> tuple[list[int], list[int]]:
        compute_ns: list[int] = self._draws.compute_ns(count).tolist()
        locks: list[int] = self._draws.among(self._places, count).tolist()
        return compute_ns, locks

    def _phase(self, compute_ns: int, lock: int) -> None:
        recorder, section, locks = self._recorder, self._section, self._locks
        self._computed(compute_ns)
        locks.enter(lock)
        section(self._section_ns)
        locks.leave(lock)
        # Everything else waits until the section is over.
        recorder.synchronizing_ns += section.began_ns - recorder.mark_ns
        recorder.computing_ns += section.ended_ns - section.began_ns
        recorder.mark_ns = section.ended_ns
        recorder.barriers.add(*locks.last_wait())

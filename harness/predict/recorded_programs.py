"""The recordings that belong to the commands of an experiment, ready to be replayed."""

import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from harness.predict import goal
from harness.predict.recorded_steps import has_root, replayed
from harness.simulator.processes.operations import ReplayedProgram
from harness.spec.experiment import Experiment
from harness.store import recording
from harness.store.database import Store
from harness.store.recording import Recording
from harness.store.records import DEDICATED, RECORDED, RunRecord
from workloads.validation import InputError
from workloads.work import Command, Work


def program_in(path: Path) -> Recording:
    """The recording in a file, or the schedule in GOAL as one.

    Raises:
        RecordingError: for another file, or one that is damaged.
    """
    return goal.read(path) if goal.is_schedule(path) else recording.read(path)


class DedicatedTime(NamedTuple):
    """Seconds of a dedicated run, with all of start and end."""

    taken_s: float  # from the job's arrival to its end
    # The longest CPU time of a rank, from the end of MPI_Init to MPI_Finalize; where that is unknown,
    # all of its CPU time.
    busy_s: float
    after_s: float | None = None  # from the end of its recording to the end of the job; None if unknown
    # The longest CPU time of a rank before and after that; None if unknown.
    outside_s: float | None = None

    @classmethod
    def of(cls, record: RunRecord) -> Self:
        """Those of a run of one job; a rank without a known CPU time computes all the time."""
        (job,) = record.jobs
        taken_s = ((job.finish_ns or 0) - job.arrival_ns) / 1e9
        times = [(rank.cpu_ns, rank.running_ns or 0) for rank in record.ranks]
        busy_ns = [ran_ns if cpu_ns is None else cpu_ns for cpu_ns, ran_ns in times]
        busy_s = max(busy_ns) / 1e9 if busy_ns and all(busy_ns) else taken_s
        until_ns = record.conditions.recorded_until_ns
        after_ns = None if until_ns is None else max(0, (job.finish_ns or 0) - until_ns)
        # Less than a rank has had between the two calls: the last look at it came before its end.
        beyond_ns = [ran_ns - cpu_ns for cpu_ns, ran_ns in times if cpu_ns is not None and ran_ns > cpu_ns]
        return cls(
            taken_s,
            busy_s,
            None if after_ns is None else after_ns / 1e9,
            max(beyond_ns) / 1e9 if beyond_ns else None,
        )

    @classmethod
    def of_recording(cls, held: Recording) -> Self:
        """The recorded run itself, which has the times of MPI_Init and MPI_Finalize."""
        elapsed_s = held.elapsed_ns / 1e9
        before_s = max(rank.init_ns for rank in held.ranks) / 1e9
        after_s = max(rank.finalize_ns for rank in held.ranks) / 1e9
        outside_s = max(rank.init_cpu_ns + rank.finalize_cpu_ns for rank in held.ranks) / 1e9
        return cls(before_s + elapsed_s + after_s, elapsed_s, after_s, outside_s)

    @classmethod
    def median(cls, runs: Collection[Self]) -> Self:
        taken_s, busy_s, after_s, outside_s = zip(*runs, strict=True)
        return cls(
            statistics.median(taken_s), statistics.median(busy_s), _median(after_s), _median(outside_s)
        )


def _median(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None


@dataclass(frozen=True)
class RecordedPrograms:
    """The recordings of commands."""

    files: Mapping[Work, Path] = field(default_factory=dict)  # the file of each command that has one
    alone: Mapping[Work, DedicatedTime] = field(default_factory=dict)  # the dedicated runs that are known
    # About how long a program lasts at most; stretches of longer ones are repeated less often.
    max_s: float | None = None
    _made: dict[tuple[Work, bool], ReplayedProgram] = field(default_factory=dict, compare=False, repr=False)

    def known(self, program: Work) -> bool:
        return program in self.files and program.threads == 1

    def lacks(self) -> list[str]:
        """What the recordings lack, a line for each that lacks something."""
        remarks = [program_in(path).lacks for path in dict.fromkeys(self.files.values())]
        return [line for line in remarks if line]

    def replayed(self, command: Work, *, blocking_calls: bool = True) -> ReplayedProgram:
        """The program of a known command.

        ``blocking_calls``: whether its collective operations are its MPI's blocking calls, as they are if the
        waiting rule of the run is spin, or its ranks wait as their MPI does.

        A part of a known dedicated run is not recorded: until MPI_Init returns, and from the call of
        MPI_Finalize on. Its CPU time is that of the rank that computes most there, and comes before;
        for the rest of it all processes sleep, before and after. Of a rank that was killed while it recorded
        the rest of its program counts to it, too.
        """
        blocking_calls = blocking_calls or command.waits == "mpi"
        if (command, blocking_calls) not in self._made:
            held = program_in(self.files[command])
            elapsed_s = held.elapsed_ns / 1e9
            alone = self.alone.get(command) or DedicatedTime.of_recording(held)
            outside_s = max(0.0, alone.taken_s - elapsed_s)
            busy_s = alone.outside_s or 0.0
            if alone.outside_s is None or not all(rank.complete for rank in held.ranks):
                busy_s += max(0.0, alone.busy_s - elapsed_s)
            start_up_s = min(outside_s, busy_s)
            after_s = min(alone.after_s or 0.0, outside_s - start_up_s)
            program = replayed(
                held,
                as_mpi=command.waits == "mpi",
                blocking_calls=blocking_calls,
                start_up_s=start_up_s,
                asleep_s=(outside_s - start_up_s - after_s, after_s),
                max_s=self.max_s,
            )
            # Without a root both kinds of calls are one program.
            for same in {blocking_calls} if has_root(held) else {True, False}:
                self._made[command, same] = program
        return self._made[command, blocking_calls]


NONE = RecordedPrograms()  # no recordings


def check(experiment: Experiment) -> None:
    for command in _commands(experiment):
        if command.recording:
            remedy = "write the name of a file that lockstep record -o has written, or leave it out"
            try:
                ranks = len(program_in(Path(command.recording)).ranks)
            except recording.RecordingError as error:
                raise InputError("recording", command.recording, error.rule, remedy) from error
            if ranks != command.processes:
                raise InputError(
                    "recording",
                    command.recording,
                    f"must have {command.processes} ranks, as the command, and has {ranks}",
                    remedy,
                )


def _commands(experiment: Experiment) -> set[Command]:
    programs = {job.program for cell in experiment.cells for job in cell.jobs()}
    return {program for program in programs if isinstance(program, Command)}


def stored(experiment: Experiment, store: Store) -> RecordedPrograms:
    """The recordings of the commands of an experiment in a store, whose runs are read only if it has any."""
    records = store.runs(experiment.digest) if _commands(experiment) else ()
    return of(experiment, records, store.path.parent)


def of(experiment: Experiment, records: Iterable[RunRecord], folder: Path) -> RecordedPrograms:
    """The recordings of the commands of an experiment.

    That is the file that a command names, else the recording of its shortest recorded run; in stores of
    earlier versions dedicated runs are recorded. ``records`` are runs of the experiment in a store in
    ``folder``.
    """
    alone: dict[Work, dict[str, list[tuple[str, DedicatedTime]]]]
    alone = {command: {RECORDED: [], DEDICATED: []} for command in _commands(experiment)}
    for record in (one for one in records if one.jobs):
        (job, *others) = record.jobs
        ours = record.kind in (RECORDED, DEDICATED) and not others and job.finish_ns is not None
        if ours and (command := job.work) in alone:
            alone[command][record.kind].append((record.conditions.recording, DedicatedTime.of(record)))
    files, times = {}, {}
    for command, of_kinds in alone.items():
        runs = of_kinds[RECORDED] or of_kinds[DEDICATED]
        if runs:
            times[command] = DedicatedTime.median([run for _, run in runs])
        kept = [(name, run) for name, run in runs if name and (folder / name).is_file()]
        if command.recording:
            if Path(command.recording).is_file():
                files[command] = Path(command.recording)
        elif kept:
            name, shortest = min(kept, key=lambda one: one[1].taken_s)
            times[command] = shortest._replace(outside_s=times[command].outside_s)
            files[command] = folder / name
    return RecordedPrograms(files, times)
